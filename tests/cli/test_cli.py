"""The command line as a whole: help without PyTorch, mistakes answered in one line, the lists."""

import json
import re
import subprocess
import sys

import pytest

from smoothcert.cli import commands
from tests.cli.commands import fails, run

COMMANDS = ["demo", "train", "soft-labels", "certify", "predict", "attack", "explain", "report", "status", "reproduce"]
COMMANDS += ["input-noise", "selftest-noise", "import", "models", "methods", "recipes", "datasets"]
COMMANDS += ["verify", "pack", "unpack"]
WITHOUT_TORCH = """
import contextlib, io, json, sys
from smoothcert.cli import main
printed = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["smoothcert", *words]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, (words, stop.code)
    assert "torch" not in sys.modules, words
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def printed_without_torch(*commands):
    command = [sys.executable, "-c", WITHOUT_TORCH, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_help_needs_no_torch():
    assert set(COMMANDS) == commands().keys()
    texts = printed_without_torch(["--help"], *([name, "--help"] for name in COMMANDS))
    for name, text in zip(["", *COMMANDS], texts, strict=True):
        about = commands()[name].ABOUT if name else "classifiers whose answers come with a proof"
        assert about in " ".join(text.split())


def test_looking_needs_no_torch(certified):
    looks = [[command, str(certified)] for command in ("status", "report", "verify")]
    status, report, verified = printed_without_torch(*looks)
    assert "verified: 6 rows recomputed" in verified
    assert "certify six: all 6 inputs done" in status
    assert "ACR" in report


def test_python_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "smoothcert", "--version"], capture_output=True, text=True)
    assert re.match(r"smoothcert \d+\.\d+", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "mnist-mini/gausian-0.50", "--out", "{}/new"], "did you mean mnist-mini/gaussian-0.50"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--dataset", "mnst"], "did you mean mnist"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--model", "lenett"], "did you mean lenet"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--method.name", "gauss"], "did you mean gaussian"),
        (
            ["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--sigma", "-1"],
            "sigma must be above 0, found -1.0",
        ),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--device", "tpu"], "device must be auto, cpu, cuda"),
        (["train", "mnist-mini/gaussian-0.50", "--out", "{run}", "--sigma", "1"], "belongs to another configuration"),
        (["certify", "{}/nothing"], "no run folder at"),
        (["certify", "{}"], "is not a run folder: it has no config.yaml"),
        (["certify", "{run}", "--n", "9"], "n = 9 samples cannot certify anything"),
        (["certify", "{run}", "--alpha", "2"], "alpha is a failure probability"),
        (["certify", "{run}", "--sigma", "-0.5"], "sigma, the standard deviation of the noise, must be above 0"),
        (["certify", "{run}", "--sigma", "0"], "must be above 0"),
        (["certify", "{run}", "--name", "a/b"], "--name is the name of one folder"),
        (["certify", "{run}", "--alpha", "1e-310"], "at least 1e-100"),
        (
            ["train", "mnist-mini/gaussian-0.50", "--out", "{}/new", "--model", "resnet20"],
            "cannot take the data's images",
        ),
        (["certify", "{run}", "--shard", "3"], "--shard takes i/N"),
        (["certify", "{run}", "--shard", "4/4"], "0 <= i < N, found 4/4"),
        (["certify", "{run}", "--max", "6", "--n", "300", "--name", "six"], "n: 200 there, 300 asked"),
        (["status", "{}/nothing"], "no run folder at"),
        (["report", "{}/nothing"], "nothing"),
        (["demo", "--images", "0", "--out", "{}/demo"], "the demo can certify 1 to 1000 images, found 0"),
        (["import", "{}/no.pth", "--out", "{}/x", "--sigma", "0.5", "--dataset", "cifar10"], "no.pth"),
        (["import", "{}/no.pth", "--out", "{}/x", "--sigma", "0.5", "--dataset", "cifar"], "did you mean cifar10"),
    ],
)
def test_mistakes_are_answered_in_one_line(capsys, certified, tmp_path, arguments, message):
    places = [argument.replace("{run}", str(certified)).replace("{}", str(tmp_path)) for argument in arguments]
    error = fails(capsys, *places)
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("*/weights*"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["trane"], "trane"),
        (["train"], "recipe"),
        (["certify", "a", "--ever", "3"], "--ever"),
        (["certify", "a", "--n", "many"], "many"),
    ],
)
def test_misspelt_options_are_refused_and_named(capsys, arguments, named):
    assert named in fails(capsys, *arguments)


def test_lists(capsys):
    assert "gaussian" in run(capsys, "methods")
    assert "hyperparameters: noises=2, lam=10.0, eta=0.5" in run(capsys, "methods")
    assert re.search(r"mnist/gaussian-0.50 +1.553", run(capsys, "recipes"))
    assert re.search(r"mnist-mini +10 +1x28x28 +10000 \+ 1000 +/", run(capsys, "datasets"))
    assert "resnet110" in run(capsys, "models")
