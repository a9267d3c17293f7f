"""Settings: they come back as they were written, and mistakes are answered in words."""

import dataclasses

import pytest

from smoothcert.config import TrainConfig, dump_config, read_config
from smoothcert.errors import ConfigError
from smoothcert.recipes import load_recipe

GOOD = {"dataset": "mnist", "model": "lenet", "sigma": 0.5, "method": {"name": "gaussian"}}


def test_named_drops_replace_the_regular_ones():
    rates = [round(load_recipe("imagenet/catrs-1.00").config.learning_rate(epoch), 9) for epoch in range(90)]
    assert [rates.count(rate) for rate in (0.1, 0.01, 0.001, 0.0001)] == [31, 30, 24, 5]


def test_a_written_configuration_reads_back_the_same(tmp_path):
    config = load_recipe("cifar10/gaussian-0.25", {"seed": 3}).config
    (tmp_path / "config.yaml").write_text(dump_config(config))
    assert read_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": 0.0}, "sigma must be above 0, found 0.0"),
        ({"sigma": float("nan")}, "sigma must be above 0, found nan"),
        ({"lr": -1.0}, "lr must be above 0"),
        ({"epochs": 0}, "epochs must be at least 1, found 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative"),
        ({"lr_drops": [30, 0]}, r"lr_drops are epochs from 1 on, found \[30, 0\]"),
    ],
)
def test_values_outside_their_domain_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(TrainConfig(**GOOD), **change)
