"""A store made under one instruction set is continued, merged, reported and sampled again under another."""

import os
import subprocess
import sys

import pytest

from smoothcert.models import build_model
from smoothcert.report import read_store
from smoothcert.runs.folder import ModelSpec, RunFolder

OTHER = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX2 FMA3",
}


def smoothcert(*words, **environment):
    command = [sys.executable, "-W", "ignore", "-m", "smoothcert", *map(str, words)]
    threads = {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, env={**os.environ, **threads, **environment}, capture_output=True, text=True
    )


@pytest.mark.parametrize("noise", ["exact", "laplace"])
def test_the_same_store_on_two_kinds_of_processor(tmp_path, noise):
    for name in ("a", "b"):
        run = RunFolder(tmp_path / name)
        spec = ModelSpec("lenet", 10, "none", 0.5, "mnist-mini", (1, 28, 28))
        run.save_model(build_model("lenet", seed=0), spec)
    settings = ("--noise", noise, "--n", 500, "--every", 40, "--device", "cpu")
    certify = ("certify", tmp_path / "a", *settings)
    assert smoothcert(*certify, "--max", 5, **OTHER).returncode == 0
    done = smoothcert(*certify, "--max", 8)  # continued here
    assert done.returncode == 0, done.stderr
    here = smoothcert("certify", tmp_path / "b", *settings, "--max", 8)
    assert here.returncode == 0, here.stderr
    found = smoothcert("verify", tmp_path / "a", "--resample", "100%", "--device", "cpu")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "sampled again elsewhere" in found.stdout
    joined = smoothcert("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "joint")
    assert joined.returncode == 0, joined.stderr
    one, other = read_store(tmp_path / "joint"), read_store(tmp_path / "b" / "certify" / "test")
    assert one.idx.tolist() == other.idx.tolist()
    assert one.radius == pytest.approx(other.radius, abs=0.02)
