"""`smoothcert certify --model`: a network in a file of the user's, its weights, what it expects, what is refused."""

import json
import textwrap

import pytest
import safetensors.torch
import torch

from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, given, run

NETS = """
    import torch
    from torch import nn
    from smoothcert.models import LeNet

    class Scaled(LeNet):
        '''Was trained on images in 0..255, standardised.'''
        def __init__(self, num_classes=10):
            super().__init__(num_classes)
        def forward(self, x):
            return super().forward((x * 60 + 30) / 255)

    class Tuple(Scaled):
        def forward(self, x):
            return super().forward(x), x

    class Object(Scaled):
        def forward(self, x):
            return torch.distributions.Categorical(logits=super().forward(x))

    class Mixes(Scaled):
        def forward(self, x):
            logits = super().forward(x)
            return logits + logits.mean(0)

    class Nowhere(Scaled):
        def forward(self, x):
            return super().forward(x).log()

    def half(num_classes):
        return Scaled(num_classes).half()

    def none():
        return None

    def fixed():
        return Scaled(10)

    class Lazy(nn.Sequential):
        def __init__(self, classes):
            super().__init__(nn.Flatten(), nn.LazyLinear(classes))
"""
SCALED = ["--input-range", 0, 255, "--mean", 30, "--std", 60]  # undoes what the network does
SMALL = ["--data", "mnist-mini", "--sigma", 0.5, "--n", 200, "--max", 4, "--device", "cpu"]


@pytest.fixture
def here(certified, tmp_path, monkeypatch):
    """A working folder with nets.py and the weights of a trained LeNet, stored as others store them."""
    (tmp_path / "nets.py").write_text(textwrap.dedent(NETS))
    state = {
        name.removeprefix("1."): value
        for name, value in RunFolder(certified).load_model()[0].state_dict().items()
    }
    torch.save(
        {"state_dict": {f"module.{name}": value for name, value in state.items()}, "epoch": 3},
        tmp_path / "w.pth",
    )
    torch.save(
        {"model_state_dict": {f"model.net.{k}": v for k, v in state.items()}},
        tmp_path / "lightning.ckpt",
    )
    safetensors.torch.save_file(state, tmp_path / "w.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder):
    lines = (folder / "certify" / "test" / "part-0-of-1.tsv").read_text().splitlines()
    return [line.split("\t")[:5] for line in lines]


def test_a_network_of_ones_own_gets_the_certificates_of_its_twin(capsys, certified, here):
    """Scale, mean and std around the network leave it the LeNet that it is: the same noise gives the same answers."""
    run(
        capsys,
        "certify",
        certified,
        "--n",
        200,
        "--max",
        4,
        "--seed",
        1,
        "--name",
        "twin",
        "--device",
        "cpu",
    )
    twin = (certified / "certify" / "twin" / "part-0-of-1.tsv").read_text().splitlines()
    command = [
        "certify",
        "--model",
        "nets.py:Scaled",
        "--weights",
        "w.pth",
        *SCALED,
        *SMALL,
        "--seed",
        1,
    ]
    printed = run(capsys, *command, "--out", "RUN")
    assert "units of images whose pixels lie in [0, 1]" in printed
    assert rows(here / "RUN") == [line.split("\t")[:5] for line in twin]
    spec = json.loads((here / "RUN" / "model.json").read_text())
    assert spec["normalisation"] == "range=0.0,255.0 mean=30.0 std=60.0"
    assert spec["source"].startswith("w.pth, SHA-256 ")
    assert "--trust-code" in fails(capsys, "predict", "RUN", "x.npy")
    # the same command resumes, and the run folder stands for itself
    assert run(capsys, *command, "--out", "RUN") == printed
    assert (
        run(capsys, "certify", "RUN", "--trust-code", "--n", 200, "--max", 4, "--seed", 1)
        == printed
    )
    assert "verified: 4 rows" in run(capsys, "verify", "RUN", "--trust-code")


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("nets:Scaled", "lightning.ckpt"),
        ("nets.Scaled", "w.safetensors"),
        ("nets:fixed", "w.pth"),
        ("lenet", "w.pth"),
    ],
)
def test_names_and_weights_as_people_have_them(capsys, here, model, weights):
    run(capsys, "certify", "--model", model, "--weights", weights, *SMALL, "--out", "RUN")
    assert len(rows(here / "RUN")) == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "nets.py:Tuple", *SMALL], "returned a tuple of 2"),
        (["--model", "nets.py:Mixes", "--weights", "w.pth", *SMALL], "depends on the other images"),
        (["--model", "nets.py:half", *SMALL], "the model cannot take the data's images"),
        (
            ["--model", "nets.py:Nowhere", "--weights", "w.pth", *SMALL],
            "the model returns NaN for an image of the data",
        ),
        (["--model", "nets.py:none", *SMALL], "expected a torch.nn.Module, got a NoneType"),
        (
            ["--model", "nets.py:Lazy", "--weights", "w.pth", *SMALL],
            "w.pth does not fit the model: missing: 1.weight",
        ),
        (["--model", "resnet20", "--weights", "w.pth", *SMALL], "does not fit the model"),
        (
            ["--model", "nets.py:Scaled", "--weights", "nowhere.pth", *SMALL],
            "no checkpoint at nowhere.pth",
        ),
        (
            ["--model", "nets.py:Scaled", "--classes", 7, *SMALL],
            "mnist-mini has 10 classes, the network 7",
        ),
        (["--model", "nets.py:Scaled", "--mean", "x", *SMALL], "--mean takes a number, found 'x'"),
        (
            ["--model", "nets.py:Scaled", "--mean", 1, 2, 3, *SMALL],
            "the normalisation is of 3 channels",
        ),
        (["--model", "nets.py:Scaled", "--input-range", 1, 0, *SMALL], "low then high"),
        (
            ["--model", "nets.py:Scaled", "--normalisation", "cifar10", *SCALED, *SMALL],
            "say it twice",
        ),
        (["--model", "nets.py:Scaled", "--data", "mnist-mini"], "also needs --sigma"),
        (
            ["--model", "nets.py:Scaled", *given(SMALL, "--sigma", -1)],
            "sigma, the standard deviation",
        ),
        (["--model", "lenet", *SMALL], "has no weights of its own"),
        (["--weights", "w.pth"], "--weights is of a network that --model names"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(capsys, here, words, message):
    before = sorted(here.iterdir())
    said = fails(capsys, "certify", *words, "--out", "RUN")
    assert message in said
    assert said.count("\n") == 1
    assert [path for path in sorted(here.iterdir()) if path.name != "__pycache__"] == before


def test_a_folder_is_never_taken_from_another_network(capsys, here, certified):
    command = ["certify", "--model", "nets.py:Scaled", "--weights", "w.pth", *SMALL]
    run(capsys, *command, *SCALED, "--out", "RUN")
    before = (here / "RUN" / "model.json").read_bytes()
    assert "normalisation: 'range=0.0,255.0 mean=30.0 std=60.0' there" in fails(
        capsys, *command, "--out", "RUN"
    )
    assert "is a training run" in fails(capsys, *command, "--out", certified)
    assert "holds files but no model.json" in fails(capsys, *command, "--out", ".")
    assert "is a file" in fails(capsys, *command, "--out", "w.pth")
    assert "name one network" in fails(capsys, *command, certified, "--out", "RUN")
    assert "--weights is of a network that --model names" in fails(
        capsys, "certify", certified, "--weights", "w.pth"
    )
    assert (here / "RUN" / "model.json").read_bytes() == before


def test_a_folder_that_was_killed_before_model_json_is_resumed(capsys, here):
    command = [
        "certify",
        "--model",
        "nets.py:Scaled",
        "--weights",
        "w.pth",
        *SCALED,
        *SMALL,
        "--out",
        "run",
    ]
    run(capsys, *command)
    before = rows(here / "run")
    (here / "run" / "model.json").unlink()
    (here / "run" / "certify").rename("gone")
    run(capsys, *command)
    assert rows(here / "run") == before
    assert RunFolder("run").spec().architecture == "nets.py:Scaled"
    (here / "mine").mkdir()
    content = (here / "w.safetensors").read_bytes()
    (here / "mine" / "weights.safetensors").write_bytes(content)  # of somebody who calls it so too
    assert "holds other weights, and no model.json" in fails(capsys, *command[:-1], "mine")
    assert (here / "mine" / "weights.safetensors").read_bytes() == content
    assert not (here / "mine" / "model.json").exists()


ODD = """
    import torch
    from torch import nn

    class Bare(nn.Module):
        '''Has no __init__, so that its signature is that of nn.Module, which takes anything.'''
        def forward(self, x):
            return torch.stack([x.mean((1, 2, 3)) * place for place in range(10)], 1)

    class Infinite(Bare):
        def forward(self, x):
            return super().forward(x) + torch.inf

    ready = Bare()

    def fails():
        raise ValueError("no such layer")
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "odd.py:ready"], "found a Bare that is built already"),
        (["--model", "odd.py:fails"], "cannot be built: ValueError: no such layer"),
        (["--model", "builtins:int"], "does not take the arguments classes"),
        (["--model", "odd.py:Infinite"], "largest logit is infinite"),
        (["--std", "1e-300"], "std at least 1e-06"),
        (["--input-range", 0, "1e300"], "at most 1e+06"),
        (["--classes", 0], "at least 2 classes, found --classes 0"),
        (["--data", "folder:~nobody-of-that-name"], "expected a path"),
        (["--data", f"folder:{'a' * 5000}"], "expected a path"),
        (["--data", "cifar10-c:fog"], "certify on clean images first"),
        (["--out", "x" * 300], "the folder to make cannot be one"),
    ],
)
def test_odd_words_are_refused_before_anything_is_written(
    capsys, tmp_path, monkeypatch, words, message
):
    (tmp_path / "odd.py").write_text(textwrap.dedent(ODD))
    monkeypatch.chdir(tmp_path)
    error = fails(
        capsys, *given(["certify", "--model", "odd.py:Bare", *SMALL, "--out", "run"], *words)
    )
    assert message in error
    assert not (tmp_path / "run").exists()


def test_a_class_without_a_constructor_is_certified(capsys, tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text(textwrap.dedent(ODD))
    monkeypatch.chdir(tmp_path)
    assert "run" in run(capsys, "certify", "--model", "odd.py:Bare", *SMALL, "--out", "run")
