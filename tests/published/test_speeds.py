"""Hours of runs that nobody has run, by the seconds of those that somebody has."""

import json

import pytest

from smoothcert.errors import StoreError
from smoothcert.published.speeds import Speeds
from tests.published.test_measured import measured


def test_hours_follow_from_the_seconds_of_runs_that_were_measured():
    speeds = Speeds([measured()])
    config = measured().config  # 10 s an epoch, and 20 s for ten images at n = 100
    assert speeds.hours({**config, "epochs": 36}, 180, 100) == pytest.approx(0.2)
    assert speeds.hours(
        {**config, "epochs": 36, "method": {"name": "smoothadv"}}, 0
    ) == pytest.approx(4.4)
    assert speeds.hours({**config, "model": "resnet20"}, 1) is None
    assert speeds.hours({**config, "dataset": "cifar10"}, 1) is None


def test_hours_of_benchmarks(tmp_path):
    path = tmp_path / "training.json"
    entry = {"recipe": "cifar10/gaussian-0.50", "seconds": 2.0}
    path.write_text(
        json.dumps(
            {"rows": [entry], "networks": [{"network": "resnet110", "seconds": 0.1, "n": 100}]}
        )
    )
    config = {
        "dataset": "cifar10",
        "model": "resnet110",
        "method": {"name": "gaussian"},
        "epochs": 90,
    }
    assert Speeds([], [path]).hours(config, 180, 1000) == pytest.approx((180 + 180) / 3600)
    path.write_text("[]")
    with pytest.raises(StoreError, match="expected what a benchmark has written"):
        Speeds([], [path])
