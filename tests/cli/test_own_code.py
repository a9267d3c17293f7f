"""The code of one's own network is part of a run: it is found from anywhere, and other code is refused by its name."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smoothcert import imports
from smoothcert.data import load_dataset
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, run
from tests.cli.digits import write_digits

NETS = """
from torch import nn
{evil}

class Net(nn.Sequential):
    def __init__(self, classes=10):
        from blocks.body import body
        super().__init__(nn.Flatten(), nn.Linear(784, 16), body(), nn.Linear(16, classes))
"""
BODY = """
from torch import nn

def body():
    return nn.ReLU()
"""
PREDICT = ["digit.npy", "--n", 200, "--seed", 1, "--trust-code", "--device", "cpu"]


def write_code(folder, evil=""):
    """nets.py, and a module below its folder that it imports when it is used."""
    (folder / "blocks").mkdir(parents=True)
    (folder / "nets.py").write_text(NETS.format(evil=evil))
    (folder / "blocks" / "body.py").write_text(BODY)


def edit(path):
    """The weights fit as before: without the hash, the network would be another one without a word."""
    path.write_text(path.read_text().replace("ReLU", "GELU") + "\n")


def train(capsys, out, model="nets.py:Net"):
    words = ["--data", "npz:few.npz", "--epochs", 1, "--evaluate-every", 0, "--device", "cpu"]
    run(capsys, "train", "mnist-mini/gaussian-0.50", *words, "--model", model, "--out", out)


@pytest.fixture
def forget(monkeypatch):
    """As a new process begins: nothing of the project is imported."""
    before, path = set(sys.modules), [*sys.path]

    def forget():
        for name in set(sys.modules) - before:
            if name.startswith(("smoothcert_file_", "nets", "blocks")):
                del sys.modules[name]
        imports._FOUND.clear()
        sys.path[:] = path

    forget()
    yield forget
    forget()


@pytest.fixture
def project(capsys, tmp_path, monkeypatch, forget):
    """A folder with code, a run of it below, and a digit; the working folder is another one."""
    place = tmp_path / "project"
    write_code(place)
    monkeypatch.chdir(place)
    write_digits("few.npz", 60)
    train(capsys, "runs/a")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.save("digit.npy", load_dataset("mnist-mini", "test").image(0))
    forget()
    return place


def test_a_run_is_used_from_anywhere_until_a_file_of_its_code_changes(capsys, project):
    """As a user does it, in processes of their own."""
    expected = run(capsys, "predict", project / "runs/a", *PREDICT)
    words = [sys.executable, "-m", "smoothcert", "predict", project / "runs/a", *PREDICT]

    def predict():
        return subprocess.run(list(map(str, words)), text=True, capture_output=True)

    assert predict().stdout == expected
    edit(project / "blocks" / "body.py")
    refused = predict()
    assert refused.returncode == 2
    assert f"{project / 'blocks' / 'body.py'} is missing, or not" in refused.stderr


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("predict", "nets.py"),
        ("predict", "blocks/body.py"),
        ("certify", "blocks/body.py"),
        ("attack", "blocks/body.py"),
        ("verify", "blocks/body.py"),
    ],
)
def test_every_command_that_loads_the_network_refuses_other_code(
    capsys, project, forget, command, file
):
    some = ["--trust-code", "--device", "cpu", "--data-dir", project]
    certify = [*some, "--split", "train", "--max", 1, "--n", 50]
    run(capsys, "certify", project / "runs/a", *certify)
    words = {
        "predict": PREDICT,
        "certify": certify,
        "attack": [*certify, "--radius", 0.5],
        "verify": [*some, "--resample", 1],
    }[command]
    content = (project / file).read_bytes()
    edit(project / file)
    forget()
    assert f"{project / file} is missing, or not the code" in fails(
        capsys, command, project / "runs/a", *words
    )
    (project / file).write_bytes(content)
    forget()
    run(capsys, "predict", project / "runs/a", *PREDICT)


def test_code_is_taken_from_where_it_is_as_it_was(capsys, project, forget):
    """Not from the nearest file of that name; and whoever has only the run folder puts it there."""
    expected = run(capsys, "predict", project / "runs/a", *PREDICT)
    write_code(Path.cwd())
    edit(Path("blocks/body.py"))
    forget()
    assert run(capsys, "predict", project / "runs/a", *PREDICT) == expected
    for name in ("nets.py", "blocks"):
        (project / name).rename(project / "runs/a" / name)
    forget()
    assert run(capsys, "predict", project / "runs/a", *PREDICT) == expected
    (project / "runs/a/nets.py").unlink()
    Path("nets.py").unlink()
    forget()
    assert "is missing" in fails(capsys, "predict", project / "runs/a", *PREDICT)


def test_a_module_is_found_from_anywhere_too(capsys, project, monkeypatch, forget):
    with monkeypatch.context() as there:
        there.chdir(project)
        train(capsys, "runs/module", "nets:Net")
    forget()
    run(capsys, "predict", project / "runs/module", *PREDICT)
    edit(project / "blocks/body.py")
    forget()
    assert "body.py is missing, or not the code" in fails(
        capsys, "predict", project / "runs/module", *PREDICT
    )


def test_what_is_noted_is_the_code_that_was_trained(capsys, project, monkeypatch, forget):
    """An hour may pass between the import and the end of the training."""
    before = RunFolder(project / "runs/a").spec().code
    monkeypatch.chdir(project)
    model, spec = RunFolder("runs/a").load_model(trust_code=True)
    edit(Path("nets.py"))
    RunFolder("runs/b").save_model(model, spec)
    assert RunFolder("runs/b").spec().code == before
    forget()
    assert "nets.py is missing, or not the code" in fails(
        capsys, "predict", "runs/b", "x.npy", "--trust-code"
    )


def test_a_run_is_not_continued_with_other_code(capsys, project, monkeypatch, forget):
    monkeypatch.chdir(project)
    weights = ["--weights", "runs/a/weights.safetensors", "--data", "npz:few.npz", "--out", "own"]
    words = ["--model", "nets.py:Net", *weights, "--sigma", 0.5, "--max", 1, "--n", 50]
    run(capsys, "certify", *words)
    edit(Path("blocks/body.py"))
    forget()
    assert "code blocks/body.py" in fails(capsys, "certify", *words)


def test_two_networks_whose_modules_have_one_name_are_not_mixed_up(
    capsys, project, monkeypatch, forget
):
    """The second would be built of the first one's parts."""
    other = project.parent / "other"
    write_code(other)
    edit(other / "blocks" / "body.py")
    monkeypatch.chdir(other)
    write_digits("few.npz", 60)
    train(capsys, "runs/b")
    forget()
    words = ["ensemble", project / "runs/a", "runs/b", "--out", "both", "--trust-code"]
    assert "is loaded under that name already" in fails(capsys, *words)
    assert not Path("both").exists()


def test_parts_of_a_network_keep_their_code(capsys, project, forget):
    """From another folder: the parts are found by where their own runs say."""
    out = ["--out", "both", "--trust-code"]
    run(capsys, "ensemble", project / "runs/a", project / "runs/a", *out)
    forget()
    run(capsys, "predict", "both", *PREDICT)
    edit(project / "blocks/body.py")
    forget()
    assert "body.py is missing, or not the code" in fails(capsys, "predict", "both", *PREDICT)


def test_settings_trust_their_own_code_and_no_other_of_that_name(capsys, project, monkeypatch):
    """A run folder of anyone's may name a place of its own for code of the same name."""
    marker = project.parent / "was_run"
    evil = project.parent / "evil"
    write_code(evil, f"open({str(marker)!r}, 'w')")
    code = imports.find_code(f"{evil / 'nets.py'}:Net")
    theirs = shutil.copytree(project / "runs/a", project / "runs/theirs")
    about = json.loads((theirs / "model.json").read_text())
    about |= {"code": {"nets.py:Net": code.hashes}, "folders": {"nets.py:Net": str(evil)}}
    (theirs / "model.json").write_text(json.dumps(about))
    monkeypatch.chdir(project)
    words = ["--data", "npz:few.npz", "--epochs", 1, "--evaluate-every", 0, "--device", "cpu"]
    error = fails(
        capsys, "train", "mnist-mini/gaussian-0.50", *words, "--model", "nets.py:Net",
        "--init-from", "runs/theirs", "--out", "runs/new",
    )  # fmt: skip
    assert "not the code" in error
    assert not marker.exists()
