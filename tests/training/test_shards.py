"""Training on tar shards, stopped by kill -9 in the middle of an epoch, with any number of workers."""

import dataclasses
import signal

import pytest

from smoothcert.cli import main
from smoothcert.data import load_dataset
from smoothcert.runs.folder import RunFolder
from tests.data.shards import write_shards
from tests.processes import Child
from tests.training.tiny import CONFIG, outcome, train

PICTURES = dataclasses.replace(CONFIG, epochs=2, batch_size=6, augment="imagenet", evaluate_every=0)


def train_and_wait(report, out, place, states):
    """Report when so many states have been saved, one after each step, and wait to be killed."""
    real, saved = RunFolder.save_state, []

    def save_state(self, state):
        real(self, state)
        saved.append(state["step"])
        if len(saved) == states:
            report(state["step"])
            signal.pause()

    RunFolder.save_state = save_state
    train(out, PICTURES, load_dataset(place), test=None, workers=2, checkpoint_seconds=0.0)


@pytest.mark.usefixtures("one_thread")
def test_killed_within_an_epoch_and_resumed_the_run_ends_the_same(tmp_path):
    place = f"tar:{write_shards(tmp_path / 'shards', [7, 6, 9])}"  # 4 steps an epoch
    out = tmp_path / "killed"
    for states, step in ((2, 2), (4, 1)):  # in the first epoch, and behind its end in the second
        child = Child(train_and_wait, out, place, states)
        assert child.next_report() == step
        assert child.kill()
    assert not RunFolder(out).finished
    options = {"data": load_dataset(place), "test": None}
    resumed, whole = (
        train(out, PICTURES, workers=1, **options),
        train(tmp_path / "whole", PICTURES, **options),
    )
    assert outcome(resumed) == outcome(whole)


def test_a_bad_number_of_workers_is_refused_before_anything_is_written(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["train", "mnist/gaussian-0.50", "--out", str(tmp_path / "run"), "--workers", "-2"])
    assert "expected a number of workers from 0 on, found -2" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
