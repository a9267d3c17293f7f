"""A run folder may name Python code as its network: no command runs it unless it is told to."""

import shutil
import sys

import numpy as np
import pytest
import torch

from smoothcert.data import load_dataset
from smoothcert.errors import ModelError
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, run
from tests.cli.digits import write_digits
from tests.code import note_code

CODE = """
from pathlib import Path
from smoothcert.models import LeNet

Path("was_run").touch()
"""


@pytest.fixture
def strange(certified, tmp_path, monkeypatch):
    """A finished run whose network is LeNet by way of a module that leaves a trace when it is imported."""
    place = shutil.copytree(certified, tmp_path / "run", ignore=shutil.ignore_patterns("certify"))
    (tmp_path / "strange_net.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    note_code(place, architecture="strange_net.LeNet")
    yield place
    sys.modules.pop("strange_net", None)


COMMANDS = {
    "certify": ["--n", 20, "--max", 1],
    "attack": ["--radius", 0.5, "--n", 20, "--max", 1, "--steps", 1, "--noises", 1],
    "explain": ["--index", 0, "--steps", 1, "--noises", 1],
    "predict": ["digit.npy", "--n", 20],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_code_that_a_folder_names_is_run_only_when_trusted(capsys, strange, command):
    np.save(strange.parent / "digit.npy", load_dataset("mnist-mini", "test").image(0))
    words = [command, strange, *COMMANDS[command]]
    error = fails(capsys, *words)
    assert "names the network 'strange_net.LeNet'" in error
    assert "--trust-code" in error
    assert error.count("\n") == 1
    assert not (strange.parent / "was_run").exists()
    run(capsys, *words, "--trust-code")
    assert (strange.parent / "was_run").exists()


def test_in_python_too(strange):
    with pytest.raises(ModelError, match=r"load_model\(trust_code=True\)"):
        RunFolder(strange).load_model()
    assert not (strange.parent / "was_run").exists()
    model, spec = RunFolder(strange).load_model(trust_code=True)
    assert spec.architecture == "strange_net.LeNet"
    assert model(torch.zeros(1, 1, 28, 28)).shape == (1, 10)


def test_training_that_starts_from_it_must_name_the_same_code(capsys, strange):
    write_digits("few.npz", 50)
    words = [
        "train",
        "mnist-mini/gaussian-0.50",
        "--data",
        "npz:few.npz",
        "--init-from",
        strange,
        "--epochs",
        1,
    ]
    error = fails(capsys, *words, "--out", "new")
    assert "--model strange_net.LeNet" in error
    assert not (strange.parent / "was_run").exists()
    run(capsys, *words, "--out", "other", "--model", "strange_net.LeNet", "--evaluate-every", 0)
