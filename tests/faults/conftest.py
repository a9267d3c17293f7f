"""Runs that tests break copies of, and the log: `FAULTS_LOG=FILE pytest tests/faults` writes what each test tells."""

import datetime
import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import smoothcert
from smoothcert.data import load_dataset
from tests.faults.commands import RECIPE, ROOT, copied, good

CERTIFY = ["--device", "cpu", "--n0", 32, "--n", 500, "--max", 60]


@pytest.fixture
def log(record_property):
    """Tell the log what was ``done``, ``printed`` or ``found``."""
    return record_property


@pytest.fixture(scope="session", autouse=True)
def _data(tmp_path_factory):
    """640 images to train on and a thousand to certify, where every command looks for data."""
    place = tmp_path_factory.mktemp("data")
    train, test = (load_dataset("mnist-mini", split) for split in ("train", "test"))
    arrays = {"train_images": train.images[:640], "train_labels": train.labels[:640]}
    np.savez(place / "small.npz", **arrays, test_images=test.images, test_labels=test.labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOOTHCERT_DATA", str(place))
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A run of three epochs that nothing disturbed; no test may change it."""
    place = tmp_path_factory.mktemp("undisturbed") / "run"
    good("train", *RECIPE, "--out", place)
    return place


@pytest.fixture(scope="session")
def certified(trained):
    """Its store of sixty certificates, which nothing disturbed either."""
    good("certify", trained, *CERTIFY)
    return trained / "certify" / "test"


@pytest.fixture
def run_folder(trained, tmp_path):
    """A copy of the run, without certificates."""
    return copied(trained, tmp_path / "run")


def pytest_sessionstart():
    if "FAULTS_LOG" in os.environ:
        words = [
            "git",
            "-C",
            str(ROOT),
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ]
        commit = (
            subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
            or "unknown"
        )
        now = datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes")
        python = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
        machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
        about = f"{now}, commit {commit}\nsmoothcert {smoothcert.__version__}, {python}, {machine}"
        _write("w", f"Faults, tested by doing them: make test-faults\n{about}\n")


def pytest_runtest_logreport(report):
    """What a test told, and how it ended."""
    told = report.when == "call" or report.outcome != "passed"
    if not told or "FAULTS_LOG" not in os.environ:
        return
    file, _, name = report.nodeid.rpartition("::")
    title = name.removeprefix("test_").replace("_", " ")
    reason = f": {report.longrepr[2]}" if report.skipped else ""
    entries = "".join(
        f"  {kind + ':':<9} {_indented(text)}\n" for kind, text in report.user_properties
    )
    _write("a", f"\n{title} ({Path(file).name})\n{entries}  {report.outcome}{reason}\n")


def _indented(text):
    return str(text).strip().replace("\n", "\n" + 12 * " ")


def _write(mode, text):
    with open(os.environ["FAULTS_LOG"], mode, encoding="utf-8") as file:
        file.write(text)
