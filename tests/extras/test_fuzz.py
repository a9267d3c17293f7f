"""Hostile words, names, files and numbers for every command and for Python: one sentence each, and nothing is damaged.

The cases are the same each time. None may print a traceback, and none may change what was stored.
"""

import contextlib
import io
import os
import random
import shutil
import signal
import sys
import time
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from smoothcert import CertifyConfig, SmoothedClassifier
from smoothcert.cli import main
from smoothcert.cli.frame import commands
from smoothcert.data import load_dataset
from smoothcert.errors import SmoothcertError
from smoothcert.models import build_model
from smoothcert.recipes import load_recipe
from smoothcert.report import read_store
from tests.cli.commands import options_of

CASES, SECONDS, LONGEST = 2000, 80, 0.1

HOSTILE = [
    *("", " ", "-1", "0", "-0.0", "nan", "inf", "-inf", "1e400", "1e-400", "9" * 30, "0x10", "1_0"),
    *("\uff11\uff12", "true", "null", "~", "[]", "{}", "{a: 1}", "[1, 2", "[[[[", "'", '"', "\\"),
    *("..", "../..", "/", "/dev/null", "nowhere", "run", "run/config.yaml", "run/model.json", "."),
    *("run/certify/test", "broken.zip", "deep.json", "noise.bin", "empty", "folder", "loop"),
    *("\x1b[31mred", "\x9b31m", "\u202egnp.exe", "a\nb", "a\rb", "\ud800", "x" * 5000, "é" * 300),
    *("%s%n", "{0}", "${HOME}", "$(id)", "`id`", ";", "--", "-", "=", ",", ":", "@", "a:b:c", "*"),
    *("folder:", "folder:nowhere", "folder:photos,size=0", "folder:photos,size=-3", "1,2", "0/0"),
    *(
        "3/2",
        "-1/2",
        "1/0",
        "0.5,0.25",
        "gaussian",
        "lenet",
        "resnet7",
        "mnist",
        "mnist-mini",
        "file.py:x",
    ),
    *(
        "own.py:Nothing",
        "own.py:Wrong",
        "torchvision:nothing",
        "timm:",
        "method.name=x",
        "25",
        "cpu",
    ),
]
BASES = {
    "train": ["mnist-mini/gaussian-0.50", "--out", "new", "--epochs", "1", "--batch-size", "5000"],
    "certify": ["run", "--max", "2", "--n0", "5", "--n", "20", "--name", "two"],
    "attack": [
        "run",
        "--max",
        "1",
        "--n",
        "10",
        "--steps",
        "1",
        "--noises",
        "1",
        "--radius",
        "0.1",
    ],
    "doctor": ["run", "--images", "2"],
    "explain": ["run", "--index", "0"],
    "predict": ["run", "photos/a/0.png", "--n", "20"],
    "report": ["run"],
    "status": ["."],
    "verify": ["run"],
    "pack": ["run", "--out", "new.zip"],
    "unpack": ["run.zip", "--out", "unpacked"],
    "merge": ["run/certify/test", "--out", "joint"],
    "import": ["weights.pt", "--arch", "lenet", "--out", "imported"],
    "ensemble": ["run", "run", "--out", "both"],
    "denoised": ["run", "--out", "denoised"],
    "reproduce": ["mnist-mini", "--rows", "nothing"],
    "list": ["recipes", "mnist/gaussian-0.50"],
    "try": ["--out", "trial"],
}


def make_world(folder):
    """A run with certificates, its pack, photos, and files of every bad kind."""
    run("train", "mnist-mini/gaussian-0.50", "--out", "run", "--epochs", "1")
    run("certify", "run", "--max", "3", "--n0", "5", "--n", "40")
    run("pack", "run", "--out", "run.zip")
    for name in "ab":
        (folder / "photos" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((28, 28), np.uint8)).save(folder / "photos" / name / "0.png")
    (folder / "noise.bin").write_bytes(random.Random(0).randbytes(3000))
    (folder / "broken.zip").write_bytes((folder / "run.zip").read_bytes()[:-500])
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "empty").touch()
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "own.py").write_text("class Wrong:\n    pass\n")
    torch.save({"x": torch.zeros(2)}, folder / "weights.pt")


def run(*words):
    """Exit status and all that was printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main([*words])
        except SystemExit as ended:
            return ended.code or 0, out.getvalue()
    return 0, out.getvalue()


class TooLong(BaseException):
    """A case was accepted, and has begun what would take long."""


@contextlib.contextmanager
def at_most(seconds):
    """Of processor time, so that other processes decide nothing; and ten times that by the clock, for what waits."""

    def ring(*_):
        raise TooLong

    timers = (signal.ITIMER_PROF, signal.SIGPROF, 1), (signal.ITIMER_REAL, signal.SIGALRM, 10)
    before = [signal.signal(number, ring) for _, number, _ in timers]
    for timer, _, times in timers:
        signal.setitimer(timer, times * seconds)
    try:
        yield
    finally:
        for timer, _, _ in timers:
            signal.setitimer(timer, 0)
        for (_, number, _), handler in zip(timers, before, strict=True):
            signal.signal(number, handler)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("world"), os.getcwd()
    os.chdir(folder)
    try:
        make_world(folder)
    finally:
        os.chdir(before)
    return folder


def hostile_words(chance, command, options):
    words = [*BASES[command]]
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        place, value = chance.randrange(len(words) + 1), chance.choice(HOSTILE)
        kind = chance.choice(["replace", "option", "option", "drop", "insert"])
        if kind == "option" and options:
            option = chance.choice(options)
            words += [f"{option}={value}"] if chance.random() < 0.3 else [option, value]
        elif kind == "drop" and words:
            del words[min(place, len(words) - 1)]
        elif kind == "replace" and words:
            words[min(place, len(words) - 1)] = value
        else:
            words.insert(place, value)
    return [command, *words]


def damage(chance, folder):
    """One file of the run becomes something else."""
    files = sorted(path for path in (folder / "run").rglob("*") if path.is_file())
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    kind = chance.choice(["cut", "flip", "insert", "replace", "gone"])
    if kind == "gone":
        path.unlink()
        return
    at = chance.randrange(len(data) + 1)
    text = chance.choice(HOSTILE).encode(errors="surrogatepass")
    if kind == "cut":
        data = data[:at]
    elif kind == "insert":
        data[at:at] = text
    elif kind == "replace":
        data = bytearray(text)
    elif data:
        data[min(at, len(data) - 1)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def stored(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if (path.is_file() and path.name in ("weights.safetensors", "model.json", "config.yaml"))
        or path.suffix == ".tsv"
    }


def times(folder):
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


def printable(text):
    return all(c in "\n\r\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in text)


@pytest.mark.filterwarnings("ignore")
def test_no_words_and_no_files_end_in_a_traceback_or_damage(world, tmp_path, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))  # no training of `reproduce`
    chance, found, ran, begun = random.Random(20229), [], 0, time.monotonic()
    assert BASES.keys() == commands().keys()
    dotted = ["--method.lam", "--soft-labels.n", "--model-options.depth"]
    options = {command: [*options_of(command), *dotted] for command in BASES}
    place, fresh = tmp_path / "here", None
    for number in range(CASES):
        if time.monotonic() - begun > SECONDS:
            break
        command = chance.choice(sorted(options))
        words = hostile_words(chance, command, options[command])
        hurt, seed = chance.random() < 0.3, chance.random()
        if hurt:
            words = [command, *BASES[command]]
        if fresh is None or times(place) != fresh:
            monkeypatch.chdir(tmp_path)
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(world, place, symlinks=True)
            fresh = times(place)
        monkeypatch.chdir(place)
        if hurt:
            damage(random.Random(seed), place)
        before, ran = stored(place), ran + 1
        try:
            with at_most(LONGEST):
                status, text = run(*words)
        except TooLong:
            status, text = 0, ""
        except BaseException as error:
            if "AST constructor recursion depth" in str(error):
                continue  # of CPython 3.11, where the timer rings while source is parsed
            found.append(f"{number} {words}: {type(error).__name__}: {error}"[:300])
            continue
        after = stored(place)
        lost = [path for path, data in before.items() if not after.get(path, b"").startswith(data)]
        known = (0, 1, 2, 3) if command == "verify" else (0, 1, 2)  # 3: inputs are missing
        if status not in known or (status and not text.strip()) or not printable(text):
            found.append(f"{number} {words}: status {status}, {text[-200:]!r}")
        if lost and command != "train":
            found.append(f"{number} {words}: changed {lost}")
    print(f"{ran} cases in {time.monotonic() - begun:.0f} s, {len(found)} of them wrong")
    assert not found, "\n".join(found[:40])
    assert ran == CASES or time.monotonic() - begun > SECONDS
    assert ran >= CASES // 8


def images():
    grey = np.full((1, 28, 28), 128, np.uint8)
    yield from (None, "x", 3, [], [[1, 2], [3]], np.zeros((0, 28, 28)), np.zeros((28, 28)))
    yield from (
        grey.astype(object),
        grey.astype(complex),
        grey / 255 + np.nan,
        grey * 1.0,
        -grey / 255.0,
    )
    yield from (
        grey[None],
        grey.astype(np.int64),
        torch.zeros(1, 28, 28),
        torch.zeros(3, 2, 2, dtype=torch.uint8),
    )


VALUES = [
    *(
        None,
        "",
        "x",
        -1,
        0,
        1,
        2**70,
        0.5,
        -0.5,
        float("nan"),
        float("inf"),
        1e-320,
        True,
        [],
        [1],
        (),
    ),
    *(
        {},
        {"a": 1},
        b"x",
        object(),
        np.float32(0.5),
        np.array([1, 2]),
        torch.zeros(2),
        "\x1b[31m",
        "../..",
    ),
]


FEW = CertifyConfig(0.5, n0=5, n=20, seed=0)


@pytest.mark.filterwarnings("ignore")
def test_python_answers_hostile_values_with_errors_of_ours_or_with_type_errors(world):
    """A TypeError is Python's own word for a wrong type; anything else that is raised must be of ours."""
    model, names = build_model("lenet", seed=0), list(CertifyConfig.__dataclass_fields__)
    store = world / "run" / "certify" / "test"
    calls = [
        *(lambda v=v, n=n: CertifyConfig(**{"sigma": 0.5, n: v}) for v in VALUES for n in names),
        *(lambda v=v: SmoothedClassifier(model, v) for v in VALUES),
        *(lambda v=v: SmoothedClassifier(model, CertifyConfig(0.5), classes=v) for v in VALUES),
        *(
            lambda v=v: SmoothedClassifier(v, CertifyConfig(0.5)).certify(torch.zeros(1, 28, 28))
            for v in VALUES[:12]
        ),
        *(lambda v=v: SmoothedClassifier(model, FEW).certify(v) for v in images()),
        *(
            lambda v=v, n=n: SmoothedClassifier(model, replace(FEW, **{n: v})).certify(
                np.zeros((1, 28, 28), np.uint8)
            )
            for v in VALUES
            for n in ("n0", "n", "alpha", "radii", "tolerance", "skip_wrong", "simultaneous")
        ),
        *(
            lambda v=v: SmoothedClassifier(model, FEW).certify(np.zeros((1, 28, 28), np.uint8), v)
            for v in VALUES
        ),
        *(
            lambda v=v, f=f: f(v)
            for v in VALUES
            for f in (load_dataset, build_model, load_recipe, read_store)
        ),
        lambda: read_store(store),
    ]
    wrong, ours = [], 0
    for number, call in enumerate(calls):
        try:
            with at_most(5):
                call()
        except SmoothcertError as error:
            ours += 1
            if not str(error).strip():
                wrong.append(f"{number}: {error!r}")
        except (TypeError, TooLong):
            pass
        except BaseException as error:
            wrong.append(f"{number}: {type(error).__name__}: {error}"[:200])
    print(f"{len(calls)} calls, {ours} refused in words of ours, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong[:40])
