"""Settings: they come back as they were written, and mistakes are answered in words."""

import dataclasses

import pytest

from smoothcert.config import (
    AttackConfig,
    CertifyConfig,
    SoftLabels,
    TrainConfig,
    as_options,
    dump_config,
    read_config,
)
from smoothcert.errors import ConfigError
from smoothcert.methods import build_method, resolved
from smoothcert.recipes import load_recipe

GOOD = {"dataset": "mnist", "model": "lenet", "sigma": 0.5, "method": {"name": "gaussian"}}


def test_named_drops_replace_the_regular_ones():
    rates = [
        round(load_recipe("imagenet/catrs-1.00").config.learning_rate(epoch), 9)
        for epoch in range(90)
    ]
    assert [rates.count(rate) for rate in (0.1, 0.01, 0.001, 0.0001)] == [31, 30, 24, 5]


def test_a_written_configuration_reads_back_the_same(tmp_path):
    config = load_recipe("cifar10/gaussian-0.25", {"seed": 3}).config
    (tmp_path / "config.yaml").write_text(dump_config(config))
    assert read_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": -0.5}, "sigma must not be negative, found -0.5"),
        ({"sigma": float("nan")}, "sigma must not be negative, found nan"),
        ({"lr": -1.0}, "lr must be above 0"),
        ({"epochs": 0}, "epochs must be at least 1, found 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative"),
        ({"lr_drops": [30, 0]}, r"lr_drops are epochs from 1 on, found \[30, 0\]"),
        (
            {"nesterov": True, "optimizer": "adam"},
            "expected sgd and a momentum above 0, found adam",
        ),
        (
            {"nesterov": True, "momentum": 0.0},
            "expected sgd and a momentum above 0, found sgd and 0",
        ),
        (
            {"method": {"name": "macer", "as_printed": True}},
            "as_printed is a setting of the whole run",
        ),
    ],
)
def test_values_outside_their_domain_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(TrainConfig(**GOOD), **change)


@pytest.mark.parametrize("kind", [TrainConfig, CertifyConfig, AttackConfig])
def test_seeds_are_those_that_a_manifest_can_hold(kind):
    values = GOOD if kind is TrainConfig else {"sigma": 0.5, "radii": [0.5]}
    for seed in (-1, -(2**63), 2**63, 2**64, 10**100):
        with pytest.raises(
            ConfigError, match=rf"^seed must be a whole number from 0 to .*, found {seed}$"
        ):
            kind(**values, seed=seed)
    assert [kind(**values, seed=seed).seed for seed in (0, 2**63 - 1)] == [0, 2**63 - 1]


def config(**nested):
    return TrainConfig("mnist", "lenet", 0.5, {"name": "gaussian"}, **nested)


@pytest.mark.parametrize("given", [5, [1], "nofile"])
@pytest.mark.parametrize("name", ["soft_labels", "self_training"])
def test_nested_settings_that_are_no_mapping_are_refused_in_words(name, given):
    with pytest.raises(ConfigError, match=f"{name} must be a mapping of settings.*found"):
        config(**{name: given})
    with pytest.raises(ConfigError, match=r"soft_labels\.settings must be a mapping"):
        config(soft_labels={"settings": given})
    with pytest.raises(ConfigError, match="missing setting of self_training: path"):
        config(self_training={"weight": 2})


def test_nested_settings_may_be_empty_or_stand_side_by_side():
    empty = config(soft_labels=None, self_training={})
    assert (empty.soft_labels, empty.self_training) == (SoftLabels(), None)
    older = config(soft_labels={"n": 5, "epochs": 3})  # as configurations of older versions have it
    assert older.soft_labels == SoftLabels(5, None, {"epochs": 3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"noise": "white"},
            "noise mode is one of exact, uniform, laplace, float, found 'white'; choose",
        ),
        (
            {"precision": "float8"},
            "precision is one of auto, .*, found 'float8'; did you mean float",
        ),
        ({"kernels": "on"}, "setting of kernels is one of auto, off, found 'on'"),
        ({"radii": 0.5}, "radii are a list of numbers"),
    ],
)
@pytest.mark.parametrize("kind", [CertifyConfig, AttackConfig])
def test_choices_that_do_not_exist_are_refused(kind, settings, message):
    with pytest.raises(ConfigError, match=message):
        kind(**{"sigma": 0.5, "radii": [0.5], **settings})


def test_settings_become_options_again():
    words = as_options(
        CertifyConfig, {"sigma": 0.5, "radii": [0.5, 1.0], "skip_wrong": True, "max": 3, "n": None}
    )
    assert words == ["--sigma", "0.5", "--radius", "0.5", "1.0", "--skip-wrong"]


def test_as_printed_is_one_setting_of_a_run(tmp_path):
    """It reaches the method and the data, and both are written down."""
    config = load_recipe("mnist/smoothmix-0.50", {"as_printed": True}).config
    assert config.method["as_printed"] is True
    assert build_method(config.method).as_printed
    (tmp_path / "config.yaml").write_text(
        dump_config(resolved(config, build_method(config.method)))
    )
    again = read_config(tmp_path / "config.yaml")
    assert (again.as_printed, again.method["as_printed"]) == (True, True)
    assert TrainConfig(**{**GOOD, "dataset": "imagenet"}, as_printed=True).dataset == (
        "imagenet-printed"
    )
    plain = TrainConfig(**GOOD)
    assert (plain.as_printed, plain.nesterov, "as_printed" in plain.method) == (False, False, False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0.0}, "beta above 0, found 0.0"),
        ({"attack": "stein-hard", "beta": 2.0}, "stein-hard has no temperature"),
        ({"attack": "foolbox", "beta": 2.0}, "foolbox has no temperature"),
        ({"attack": "foolbox", "as_printed": True}, "foolbox's attack is in no paper"),
    ],
)
def test_what_an_attack_does_not_know_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        AttackConfig(0.5, (0.5,), **settings)
