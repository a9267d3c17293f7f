"""Ten mistakes that everyone makes once, from the shell and in Python: one sentence names what was found and the cure.

By meaning: what must be told is there, in whatever words. Nothing is written, and nothing is certified.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import smoothcert
from smoothcert import (
    AttackConfig,
    CertifyConfig,
    Dataset,
    SmoothcertError,
    SmoothedClassifier,
    attack_dataset,
    certify_dataset,
    load_dataset,
    load_model,
)
from smoothcert.runs.loading import mini_run
from tests.cli.commands import ends
from tests.refusals import cases

CONFIG = CertifyConfig(sigma=0.5, n0=10, n=100, seed=0)
NETS = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, classes=10):
        super().__init__(nn.Flatten(), nn.Linear(784, classes))

class Five(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(784, 5))

class Colour(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 10, 28), nn.Flatten())

class Drop(Net):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder as a user may have it: networks, weights, digits, pictures without labels, a run."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "nets.py").write_text(NETS)
    names = {}
    exec(NETS, names)
    for name in ("Net", "Five", "Colour", "Drop"):
        torch.save(names[name]().state_dict(), folder / f"{name}.pth")
    test = load_dataset("mnist-mini", "test")
    images, labels = test.images[:8], test.labels[:8]
    np.savez(folder / "digits.npz", images=images, labels=labels)
    np.savez(folder / "range.npz", images=images.astype(np.float32), labels=labels)
    np.save(folder / "size.npy", np.zeros((1, 32, 32), np.uint8))
    np.save(folder / "range.npy", images[0].astype(np.float32))
    (folder / "pictures").mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image[0]).save(folder / "pictures" / f"{i}.png")
    model, spec = mini_run().load_model()
    run = smoothcert.runs.folder.RunFolder(folder / "run")
    run.save_model(model, spec)
    return folder


@pytest.mark.parametrize(
    ("mistake", "words", "told"),
    cases("""
        wrong range      | certify --model nets.py:Net --weights Net.pth --data npz:range.npz OWN | [0, 1] & 255
        wrong range      | predict run range.npy                                         | range.npy & 0 to 255
        wrong size       | predict run size.npy                                   | 1, 28, 28 & 1, 32, 32 & size
        wrong size       | certify --model nets.py:Colour --weights Colour.pth DIGITS OWN  | 1, 28, 28 & ,size=
        8-bit sigma      | certify run --sigma 128                                             | 128 & 8-bit & 0.5
        mistyped command | certfy run                                                            | certfy & certify
        mistyped option  | certify run --sgima 0.5                                             | --sgima & --sigma
        mistyped word    | certify run --noise exakt                                               | exakt & exact
        no weights       | certify --model nets.py:Net DIGITS OWN                              | random & weights
        no weights       | certify --model lenet DIGITS OWN                                     | lenet & weights
        no such file     | certify --model nets.py:Net --weights no.pth DIGITS OWN                   | no.pth & path
        wrong classes    | certify --model nets.py:Five --weights Five.pth DIGITS OWN            | 10 & 5 & classes
        other weights    | certify --model nets.py:Net --weights Five.pth DIGITS OWN  | 5, 784 & 10, 784 & classes
        train mode       | certify --model nets.py:Drop --weights Drop.pth DIGITS OWN         | dropout & training
        no labels        | certify run --data folder:pictures --skip-wrong                     | labels & labels.csv
    """),
)
def test_from_the_shell(capsys, place, monkeypatch, mistake, words, told):
    monkeypatch.chdir(place)
    before = files(place)
    words = words.replace("OWN", "--sigma 0.5 --n 100 --out new")
    status, said = ends(capsys, *shlex.split(words.replace("DIGITS", "--data npz:digits.npz")))
    (line,) = said.err.splitlines()
    assert status == 2
    assert line.startswith("error: ")
    assert all(part in line for part in told.split(" & ")), line
    assert said.out == ""
    assert files(place) == before


def files(place):
    return sorted(path for path in place.rglob("*") if "__pycache__" not in path.parts)


class Five(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(784, 5))


class Drop(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(784, 10))

    def forward(self, x):
        return super().forward(nn.functional.dropout(x))


def digits():
    return load_dataset("mnist-mini", "test")


def unlabelled():
    return Dataset("pictures", "test", digits().images[:4], np.full(4, -1), 10)


CALLS = {
    "wrong range": (lambda: certify(digits().image(0).astype(np.float32)), "0 to 255"),
    "wrong size": (lambda: certify(np.zeros((3, 32, 32), np.uint8)), "3, 32, 32 & size"),
    "no channels": (lambda: certify(np.zeros((28, 28), np.uint8)), "[C, H, W] & [28, 28]"),
    "8-bit sigma": (lambda: CertifyConfig(sigma=128), "128 & 8-bit & 0.5"),
    "no settings": (lambda: SmoothedClassifier(load_model("mini"), 0.5), "CertifyConfig & 0.5"),
    "mistyped word": (lambda: CertifyConfig(sigma=0.5, noise="exakt"), "exact & exakt"),
    "mistyped name": (lambda: load_dataset("mnits"), "mnits & mnist"),
    "no model there": (lambda: load_model("runs/none"), "runs/none & train"),
    "wrong classes": (lambda: certify_set(Five()), "10 & 5 & classes"),
    "train mode for ever": (lambda: certify(digits().image(0), Drop()), "dropout & training"),
    "no labels": (lambda: certify_set(load_model("mini"), unlabelled()), "labels & labels.csv"),
    "no labels to attack": (
        lambda: attack_dataset(load_model("mini"), unlabelled(), "a", AttackConfig(0.5, (1.0,))),
        "labels & labels.csv",
    ),
}


@pytest.mark.parametrize("mistake", CALLS)
def test_in_python(tmp_path, monkeypatch, mistake):
    call, told = CALLS[mistake]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SmoothcertError) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert all(part in str(raised.value) for part in told.split(" & ")), raised.value
    assert not list(tmp_path.iterdir())


def certify(image, model=None):
    return SmoothedClassifier(model or load_model("mini"), CONFIG).certify(image)


def certify_set(model, data=None):
    """With skip_wrong where there are no labels to be wrong."""
    config = replace(CONFIG, skip_wrong=data is not None)
    return certify_dataset(model, data or digits(), "store", config, quiet=True)


def test_a_mistyped_name_of_the_package_is_guessed():
    with pytest.raises(AttributeError, match="certify_dataset"):
        smoothcert.certify_datset  # noqa: B018


def test_a_network_that_was_left_in_train_mode_is_certified_as_in_eval_mode():
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(784), nn.Dropout(0.5), nn.Linear(784, 10))
    found = [certify(digits().image(0), net.train(mode)).counts.tolist() for mode in (True, False)]
    assert found[0] == found[1]
    assert not net.training


@pytest.mark.parametrize("kind", ["shell", "python"])
@pytest.mark.skipif(os.name == "nt", reason="limits of files are of Unix")
def test_a_full_disk_ends_in_one_sentence_and_the_store_can_be_completed(tmp_path, kind):
    """A limit on the size of files, in a process of its own, says the same as a disk without space."""
    words = ["try", "--n", "100", "--out", "out"]
    shell = f"from smoothcert.cli import main; main({words})"
    python = (
        "from smoothcert import *; m, d = load_model('mini'), load_dataset('mnist-mini');"
        "certify_dataset(m, d, 'out', CertifyConfig(0.5, n=100), selection=Selection(max=9), quiet=True)"
    )
    code = shell if kind == "shell" else python
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}));"
    size = 50_000 if kind == "shell" else 300
    environment = {**os.environ, "PYTHONPATH": str(Path(smoothcert.__file__).parent.parent)}

    def start(code):
        program = [sys.executable, "-B", "-c", code]
        return subprocess.run(
            program, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    failed = start(limit.format(size) + code)
    assert failed.returncode != 0
    *before, last = failed.stderr.strip().splitlines()
    assert re.search(r"could not write .*free some space", last)
    assert kind == "python" or before == []
    done = start(code)
    assert done.returncode == 0, done.stderr
