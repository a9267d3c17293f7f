"""Settings: they come back as they were written, and mistakes are answered in words."""

import dataclasses

import pytest

from smoothcert.config import AttackConfig, CertifyConfig, SoftLabels, TrainConfig, as_options, dump_config, read_config
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("soft_labels: 5", "soft_labels must be a mapping of settings.*found 5"),
        ("soft_labels: {settings: 3}", "soft_labels.settings must be a mapping"),
        ("self_training: nofile", "self_training must be a mapping of settings.*found 'nofile'"),
        ("self_training: {weight: 2}", "missing setting of self_training: path"),
    ],
)
def test_nested_settings_that_are_no_mapping_are_refused_in_words(tmp_path, line, message):
    path = tmp_path / "mine.yaml"
    path.write_text(f"dataset: mnist\nmodel: lenet\nsigma: 0.5\nmethod: {{name: gaussian}}\n{line}\n")
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path))


def test_nested_settings_may_be_empty_or_stand_side_by_side(tmp_path):
    path = tmp_path / "mine.yaml"
    base = "dataset: mnist\nmodel: lenet\nsigma: 0.5\nmethod: {name: gaussian}\n"
    path.write_text(f"{base}soft_labels: null\nself_training: {{}}\n")
    config = load_recipe(str(path)).config
    assert (config.soft_labels, config.self_training) == (SoftLabels(), None)
    path.write_text(f"{base}soft_labels: {{n: 5, epochs: 3}}\n")  # as configurations of older versions have it
    assert load_recipe(str(path)).config.soft_labels == SoftLabels(5, None, {"epochs": 3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "white"}, "unknown noise mode 'white'"),
        ({"precision": "float8"}, "unknown precision 'float8'"),
        ({"kernels": "on"}, "unknown setting of kernels 'on'"),
        ({"radii": 0.5}, "radii are a list of numbers"),
    ],
)
@pytest.mark.parametrize("kind", [CertifyConfig, AttackConfig])
def test_choices_that_do_not_exist_are_refused(kind, settings, message):
    with pytest.raises(ConfigError, match=message):
        kind(**{"sigma": 0.5, "radii": [0.5], **settings})


def test_settings_become_options_again():
    words = as_options(CertifyConfig, {"sigma": 0.5, "radii": [0.5, 1.0], "skip_wrong": True, "max": 3, "n": None})
    assert words == ["--sigma", "0.5", "--radius", "0.5", "1.0", "--skip-wrong"]
