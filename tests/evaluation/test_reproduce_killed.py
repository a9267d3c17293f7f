"""A `reproduce` that is killed: its trainings save their state and end with it."""

import contextlib
import dataclasses
import os
import time

import numpy as np
import pytest

from smoothcert.cli import main
from smoothcert.config import dump_config
from smoothcert.evaluation.plan import plan, targets
from smoothcert.evaluation.reproduce import Given, run_jobs
from smoothcert.published.measured import read_measured
from smoothcert.recipes import load_recipe
from smoothcert.runs.folder import RunFolder
from tests.processes import PATIENCE, Child

LED = """
import functools
from dataclasses import dataclass
from smoothcert.methods import build_method
from smoothcert.methods.base import Method

opened = functools.cache(functools.partial(open, buffering=0))

@dataclass(frozen=True)
class Led(Method):
    words: str = ""
    steps: str = ""

    def loss(self, *about):
        if not opened(self.words, "rb").read(1):
            raise SystemExit("the test is over")
        opened(self.steps, "ab").write(b"!")
        return build_method({"name": "gaussian"}).loss(*about)
"""


def reproduce(report, job):
    run_jobs([job], Given(train=("--device", "cpu")), 1)


def test_trainings_save_their_state_and_end_when_reproduce_is_killed(tmp_path):
    """The training takes a step for each byte of a named pipe, and waits at the first as long as none has come."""
    (tmp_path / "led.py").write_text(LED)
    words, steps = tmp_path / "words", tmp_path / "steps"
    os.mkfifo(words)
    method = {"name": "led.Led", "words": str(words), "steps": str(steps)}
    config = load_recipe("mnist-mini/gaussian-0.50").config
    recipe = tmp_path / "led.yaml"
    recipe.write_text(dump_config(dataclasses.replace(config, method=method, epochs=10**6)))
    (job,) = plan(targets("mnist-mini/gaussian-0.50"), tmp_path)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    parent = Child(
        reproduce, dataclasses.replace(job, recipe=str(recipe)), environment={"PYTHONPATH": path}
    )
    latest = time.monotonic() + PATIENCE
    with open(_writable(words, latest), "wb", buffering=0) as leash:
        assert parent.kill()
        with pytest.raises(BrokenPipeError):  # the training has ended
            _lead(leash, latest)
    state = RunFolder(job.folder).load_state()
    assert state is not None
    batches = -(-10_000 // config.batch_size)
    assert state["epoch"] * batches + state["step"] == steps.stat().st_size > 0
    assert (
        job.folder.with_suffix(".log")
        .read_text()
        .endswith("interrupted: run the same command to go on\n")
    )


def _lead(leash, latest):
    while time.monotonic() < latest:
        leash.write(b"!")
        time.sleep(0.01)


def _writable(pipe, latest):
    """The end of a named pipe to write to, as soon as a process reads the other."""
    while True:
        with contextlib.suppress(OSError):
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        assert time.monotonic() < latest, "the training has not begun"
        time.sleep(0.01)


def small_run(report, out, data):
    train = "--train=--epochs 1 --evaluate-every 0"
    words = ["reproduce", "mnist/gaussian-0.50", "--data", data, "--out", str(out), train]
    main([*words, "--certify=--n 5000", "--device", "cpu"])


@pytest.mark.long
def test_a_killed_command_goes_on_where_it_was(tmp_path):
    """Killed while it certifies: its child ends, and the next command makes the rows that are missing."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (56, 28, 28), dtype=np.uint8), np.arange(56) % 10
    arrays = {"train_images": images[:16], "train_labels": labels[:16]}
    np.savez(tmp_path / "a.npz", **arrays, test_images=images[16:], test_labels=labels[16:])
    data, out = f"npz:{tmp_path / 'a.npz'}", tmp_path / "out"
    parent, latest = Child(small_run, out, data), time.monotonic() + PATIENCE
    while not any(len(p.read_bytes().splitlines()) > 2 for p in out.rglob("part-*.tsv")):
        assert time.monotonic() < latest, "the certification has not begun"
        time.sleep(0.01)
    assert parent.kill()
    assert not (out / "results.jsonl").exists()
    (state,) = out.rglob("state.pt")
    trained = state.stat().st_mtime_ns
    small_run(None, out, data)
    assert state.stat().st_mtime_ns == trained
    (line,) = read_measured([out / "results.jsonl"])
    assert line.settings["images"] == 40
