"""Real signals to real processes: nothing is lost, nothing is done twice, and no traceback is shown."""

import dataclasses
import random
import signal
import subprocess
import sys
import threading

import pytest

from smoothcert.__main__ import RESUMED
from smoothcert.cli.frame import commands
from smoothcert.interrupts import Interrupted, before_leaving, leave_on_signals, postponed
from smoothcert.runs.folder import RunFolder
from smoothcert.training import loop
from smoothcert.training.steps import Stepper
from tests.processes import Child
from tests.training.tiny import CONFIG, SAMPLED, outcome, tiny, train

LONGER = dataclasses.replace(CONFIG, epochs=16)
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
COMMAND = """
import runpy, sys, time
# once all is imported and the run is read, it waits: the signal never comes after the end
sys.addaudithook(lambda event, about: time.sleep(600) if event == "open" and "model.json" in str(about[0]) else None)
runpy.run_module("smoothcert", run_name="__main__")
"""


def train_reporting_steps(report, out):
    """As `smoothcert train` does, from the moment at which everything is imported."""
    leave_on_signals()
    report()
    real = Stepper.take

    def take(self, batch):
        real(self, batch)
        report()

    Stepper.take = take
    train(out, LONGER)


@pytest.mark.usefixtures("one_thread")
def test_interrupted_twenty_times_at_random_moments_training_takes_no_step_twice(tmp_path):
    chance, out, taken, statuses = random.Random(0), tmp_path / "interrupted", 0, []
    while len(statuses) < 20:
        awaited = chance.randrange(3)
        child = Child(
            train_reporting_steps, out, waits_at=1 + awaited + 2
        )  # it goes on, but is never finished
        for _ in range(1 + awaited):
            child.next_report()
        threading.Event().wait(chance.random() * 0.01)
        number = chance.choice(list(STATUS))
        status, unseen = child.interrupt(number)
        assert status == STATUS[number]
        taken += awaited + unseen
        statuses.append(status)
    assert set(statuses) == {130, 143}
    run = RunFolder(out)
    state = run.load_state()
    steps = -(-len(tiny().images) // LONGER.batch_size)
    assert state is not None
    assert (
        taken == state["epoch"] * steps + state["step"] > 10
    )  # what was done is saved, and was done once
    assert outcome(train(out, LONGER)) == outcome(train(tmp_path / "whole", LONGER))


@pytest.mark.usefixtures("one_thread")
def test_a_signal_during_an_evaluation_repeats_no_step(tmp_path, monkeypatch):
    real = loop.Batches.epoch

    def epoch(self, *where, **more):
        if self.dataset.split == "test":
            signal.raise_signal(signal.SIGINT)
        return real(self, *where, **more)

    monkeypatch.setattr(loop.Batches, "epoch", epoch)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "interrupted")
    monkeypatch.undo()
    state = RunFolder(tmp_path / "interrupted").load_state()
    assert state is not None
    assert (state["epoch"], state["step"]) == (0, 10)
    assert outcome(train(tmp_path / "interrupted")) == outcome(train(tmp_path / "whole"))


@pytest.mark.usefixtures("one_thread")
def test_a_signal_while_images_are_chosen_chooses_them_again(tmp_path, monkeypatch):
    real = loop.shares_of_copies

    def shares(*arguments):
        signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(loop, "shares_of_copies", shares)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "interrupted", SAMPLED)
    monkeypatch.undo()
    state = RunFolder(tmp_path / "interrupted").load_state()
    assert state is not None
    assert (state["epoch"], state["step"], state["sampling"]) == (1, 0, None)
    assert outcome(train(tmp_path / "interrupted", SAMPLED)) == outcome(
        train(tmp_path / "whole", SAMPLED)
    )


def _signalled_while_postponed(seen):
    with postponed() as came:
        assert came() == 0
        signal.raise_signal(signal.SIGTERM)
        assert seen == []
        raise Interrupted(came())


def test_the_handler_of_the_caller_is_called_after_the_state_is_saved():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with pytest.raises(Interrupted):
            _signalled_while_postponed(seen)
        assert seen == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(seen) == 2  # its handler is back
    finally:
        signal.signal(signal.SIGTERM, before)


def test_something_is_done_before_the_handler_of_the_caller_and_a_second_signal_does_not_wait_for_it():
    seen = []

    def action():
        seen.append("action")
        signal.raise_signal(signal.SIGINT)  # the second, of either kind

    before = {
        number: signal.signal(number, lambda number, frame: seen.append(number))
        for number in STATUS
    }
    try:
        with before_leaving(action):
            signal.raise_signal(signal.SIGTERM)
        assert seen == ["action", signal.SIGINT, signal.SIGTERM]
        with before_leaving(action):
            pass
        signal.raise_signal(signal.SIGTERM)
        assert seen[3:] == [signal.SIGTERM]  # its handler is back
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_signals_that_are_ignored_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with postponed() as came:
            signal.raise_signal(signal.SIGINT)
            assert came() == 0
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize(
    "module", ["smoothcert.cli", "cyclopts", "numpy", "torch", "torch.nn", "smoothcert.data"]
)
def test_a_signal_while_modules_are_imported_shows_one_line(module, number, tmp_path):
    said, status = interrupted_while_importing(module, number, "certify", tmp_path)
    assert said == ["interrupted: run the same command to go on\n"]
    assert status == STATUS[number]


def test_a_command_that_keeps_nothing_does_not_say_that_it_goes_on(tmp_path):
    said, status = interrupted_while_importing("torch", signal.SIGINT, "doctor", tmp_path)
    assert (said, status) == (["interrupted\n"], 130)
    assert {*RESUMED} < {*commands()}


def interrupted_while_importing(module, number, command, run):
    """Python prints each module that it has imported; the signal is sent when the line of this one comes."""
    (run / "model.json").write_text("{}")
    words = [sys.executable, "-X", "importtime", "-c", COMMAND, command, str(run)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.split("|")[-1].strip().startswith(module):
                process.send_signal(number)
                break
        said = [line for line in process.stderr if not line.startswith("import time:")]
    return said, process.returncode
