"""A `reproduce` that is killed: its trainings save their state and end with it."""

import contextlib
import dataclasses
import os
import time

import pytest

from smoothcert.config import dump_config
from smoothcert.evaluation.plan import plan, targets
from smoothcert.evaluation.reproduce import Given, run_jobs
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
