"""Trackers: metrics go to them as well; unknown and missing ones are named."""

import dataclasses
import sys

import pytest

from smoothcert.errors import ConfigError, MissingExtra
from tests.training.tiny import CONFIG, train


@pytest.mark.parametrize("track", ["tensorboard"])
def test_metrics_also_go_to_a_tracker(tmp_path, track):
    pytest.importorskip(track)
    run = train(tmp_path / "run", dataclasses.replace(CONFIG, epochs=1), track=[track])
    assert list((run.path / "tensorboard").glob("events.*"))


def test_unknown_and_missing_trackers_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"did you mean tensorboard\?"):
        train(tmp_path / "a", track=["tensorbord"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "wandb", None)  # as if not installed
        with pytest.raises(MissingExtra, match=r"pip install 'smoothcert\[wandb\]'"):
            train(tmp_path / "b", track=["wandb"])
    assert not list(tmp_path.iterdir())  # a mistyped command does not claim the folder
