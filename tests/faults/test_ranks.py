"""One of two training processes killed by -9: the job ends, in one line of ours, or starts again by itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.commands import RECIPE, ROOT, TRAINED, end, wait_until


def launch(out, *words):
    """torchrun with two processes, on the command line as in docs/training-on-many-gpus.md."""
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        *words,
    ]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [*torchrun, "-m", "smoothcert", "train", *RECIPE, "--epochs", "6", "--out", str(out)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ranks(process):
    """The processes that torchrun started, in the order of their ranks."""
    found = {}
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found[next((int(entry[5:]) for entry in environment if entry.startswith(b"RANK=")), -1)] = (
            int(pid)
        )
    return [found[rank] for rank in sorted(found) if rank >= 0]


def killed_at_work(out, *words):
    process, metrics = launch(out, *words), out / "metrics.jsonl"
    wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= 1, process)
    os.kill(ranks(process)[1], signal.SIGKILL)
    return process


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("ranks") / "run"
    process = launch(out)
    process.communicate(timeout=600)
    assert process.returncode == 0
    return {name: (out / name).read_bytes() for name in TRAINED}


def test_a_killed_rank_ends_the_job_and_the_same_command_goes_on(undisturbed, tmp_path, log):
    process = killed_at_work(tmp_path / "run")
    _, said = process.communicate(timeout=600)
    ours = [line for line in said.splitlines() if line.startswith("error: ")]
    log("done", "torchrun with two processes; rank 1 killed by -9 after the first of six epochs")
    log("printed", "\n".join(ours))
    assert process.returncode != 0
    assert len(ours) <= 1  # torchrun may end the other one before it has noticed
    status, said = end(launch(tmp_path / "run"))
    assert status == 0, said
    assert {name: (tmp_path / "run" / name).read_bytes() for name in TRAINED} == undisturbed
    log(
        "found",
        "the same command goes on, and ends with the bytes of an undisturbed training of two processes",
    )


def test_torchrun_starts_them_again(undisturbed, tmp_path, log):
    process = killed_at_work(tmp_path / "run", "--max-restarts", "3")
    process.communicate(timeout=600)
    assert process.returncode == 0
    assert {name: (tmp_path / "run" / name).read_bytes() for name in TRAINED} == undisturbed
    log(
        "done",
        "torchrun --max-restarts 3 with two processes; rank 1 killed by -9 after the first of six epochs",
    )
    log(
        "found", "they start again by themselves, and end with the bytes of an undisturbed training"
    )
