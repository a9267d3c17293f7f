"""`smoothcert import`: a checkpoint becomes a run if its network, weights and noise level can be what is said."""

import re

import pytest
import torch

from smoothcert.models import CifarResNet, build_model
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, given, run

MINI = ["--sigma", 0.5, "--data", "mnist-mini", "--device", "cpu"]


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint.pth.tar"


def test_a_published_checkpoint_becomes_a_run(capsys, checkpoint, certified, tmp_path):
    model, _ = RunFolder(certified).load_model()
    torch.save({"arch": "LeNet", "state_dict": model.state_dict(), "epoch": 90}, checkpoint)
    printed = run(capsys, "import", checkpoint, "--out", tmp_path / "run", *MINI)
    share = re.search(
        r"accuracy under noise of sigma 0.5 on 200 test images: ([\d.]+) %\n", printed
    )
    assert share is not None
    assert float(share[1]) > 60
    assert "lenet, 10 classes, normalisation none" in printed
    assert "ACR" in run(capsys, "certify", tmp_path / "run", "--n", 100, "--max", 1)
    assert "imported model" in run(capsys, "status", tmp_path / "run")
    assert "is not empty" in fails(capsys, "import", checkpoint, "--out", tmp_path / "run", *MINI)


def test_a_model_that_guesses_is_named(capsys, checkpoint, tmp_path):
    torch.save(
        {"arch": "LeNet", "state_dict": build_model("lenet", seed=3).state_dict()}, checkpoint
    )
    assert "what guessing gives: check --norm" in run(
        capsys, "import", checkpoint, "--out", tmp_path / "run", *MINI
    )


def test_without_the_test_images_the_import_says_so(capsys, checkpoint, tmp_path, monkeypatch):
    for name in ("SMOOTHCERT_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    torch.save({"arch": "cifar_resnet8", "state_dict": CifarResNet(8).state_dict()}, checkpoint)
    printed = run(
        capsys,
        "import",
        checkpoint,
        "--out",
        tmp_path / "run",
        "--sigma",
        0.5,
        "--data",
        "cifar10",
    )
    assert "its accuracy was not checked" in printed
    assert RunFolder(tmp_path / "run").finished


def poisoned(name, value):
    state = build_model("lenet", seed=0).state_dict()
    state[name].view(-1)[0] = value
    return state


@pytest.mark.parametrize(
    ("state", "words", "message"),
    [
        (poisoned("1.conv1.bias", torch.nan), MINI, "found NaN or infinity in 1.conv1.bias"),
        (poisoned("1.fc2.weight", -torch.inf), MINI, "found NaN or infinity in 1.fc2.weight"),
        (
            None,
            given(MINI, "--sigma", -1),
            "sigma, the standard deviation of the noise, must be above 0",
        ),
        (None, given(MINI, "--sigma", 1e9), "at most 5, found 1000000000.0"),
        (
            None,
            given(MINI, "--data", "cifar10"),
            "cannot take the data's images, of shape [3, 32, 32]",
        ),
        (None, given(MINI, "--normalisation", "cifar10"), "the normalisation is of 3 channels"),
    ],
)
def test_what_cannot_be_is_refused(capsys, checkpoint, tmp_path, state, words, message):
    torch.save(
        {"arch": "LeNet", "state_dict": state or build_model("lenet", seed=0).state_dict()},
        checkpoint,
    )
    error = fails(capsys, "import", checkpoint, "--out", tmp_path / "run", *words)
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_file_in_the_place_of_the_folder_is_kept(capsys, checkpoint, tmp_path):
    torch.save(
        {"arch": "LeNet", "state_dict": build_model("lenet", seed=0).state_dict()}, checkpoint
    )
    before = checkpoint.read_bytes()
    assert "is a file: give a new --out" in fails(
        capsys, "import", checkpoint, "--out", checkpoint, *MINI
    )
    assert checkpoint.read_bytes() == before
