"""Settings: they come back as they were written, and mistakes are answered in words."""

import dataclasses

import numpy as np
import pytest

from smoothcert.config import (
    AttackConfig,
    CertifyConfig,
    SoftLabels,
    TrainConfig,
    as_options,
    checked,
    dump_config,
    read_config,
    read_mapping,
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
        ({"momentum": 1.0}, "momentum must be below 1"),
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
def test_a_sigma_of_grey_levels_is_asked_about(kind):
    values = {**GOOD} if kind is TrainConfig else {"radii": [0.5]}
    assert kind(**values | {"sigma": 3.5}).sigma == 3.5
    with pytest.raises(ConfigError, match=r"\[0, 1\] image, .*found 25, .*8-bit.* 0\.098"):
        kind(**values | {"sigma": 25})
    with pytest.raises(ConfigError, match=r"sigma must be .*found inf"):
        kind(**values | {"sigma": float("inf")})


@pytest.mark.parametrize("radius", [-0.25, float("nan"), float("inf")])
def test_radii_are_finite_distances(radius):
    with pytest.raises(ConfigError, match=r"radii (are|must be) .*found"):
        CertifyConfig(sigma=0.5, radii=(0.5, radius))


@pytest.mark.parametrize("kind", [TrainConfig, CertifyConfig, AttackConfig])
def test_seeds_are_those_that_a_manifest_can_hold(kind):
    values = GOOD if kind is TrainConfig else {"sigma": 0.5, "radii": [0.5]}
    for seed in (-1, -(2**63), 2**63, 2**64, 10**100):
        with pytest.raises(
            ConfigError, match=rf"^seed must be a whole number from 0 to .*, found {seed}$"
        ):
            kind(**values, seed=seed)
    assert [kind(**values, seed=seed).seed for seed in (0, 2**63 - 1)] == [0, 2**63 - 1]


BASE = {
    TrainConfig: GOOD,
    CertifyConfig: {"sigma": 0.5},
    AttackConfig: {"sigma": 0.5, "radii": [0.5]},
}


@pytest.mark.parametrize(
    ("kinds", "change"),
    [
        (BASE, {"sigma": value})
        for value in (None, "0.5", True, float("inf"), float("nan"), 10**400, [0.5])
    ]
    + [
        (kinds, {name: value})
        for kinds, name in (
            ([TrainConfig], "epochs"),
            ([TrainConfig], "batch_size"),
            ([CertifyConfig], "n0"),
            ([CertifyConfig, AttackConfig], "n"),
            ([AttackConfig], "steps"),
        )
        for value in (None, "6", 6.5, True)
    ]
    + [([CertifyConfig, AttackConfig], {"alpha": value}) for value in (None, "0.1", float("nan"))]
    + [([CertifyConfig, AttackConfig], {"radii": value}) for value in ("12", [None], ["1"])]
    + [([TrainConfig], {"lr": value}) for value in (None, "0.1", float("inf"))]
    + [
        ([TrainConfig], {"model": None}),
        ([TrainConfig], {"lr_late": "yes"}),
        ([TrainConfig], {"lr_drops": [1.5]}),
        ([TrainConfig], {"method": "gaussian"}),
        ([TrainConfig], {"augment": None}),
        ([CertifyConfig], {"skip_wrong": 1}),
        ([CertifyConfig], {"tolerance": float("inf")}),
    ],
)
def test_settings_of_another_type_are_refused_by_name(kinds, change):
    """Whoever gives them: a null that is used as a number fails late, and an infinity not at all."""
    for kind in kinds:
        values = {**BASE[kind], **change}
        message = rf"\b{next(iter(change))} (must be|is one of)"
        with pytest.raises(ConfigError, match=message):
            kind(**values)
        with pytest.raises(ConfigError, match=message):
            checked(kind, values, "setting")


def test_numbers_become_those_of_python(tmp_path):
    """An array's number is one, but a manifest could not hold it; 1e-4 is one in YAML too."""
    config = CertifyConfig(np.float32(0.5), n=np.int64(100), alpha=1e-4, radii=[1, np.float64(0)])
    assert config == CertifyConfig(0.5, n=100, alpha=1e-4, radii=(0.0, 1.0))
    assert {type(value) for value in (config.sigma, *config.radii)} == {float}
    assert type(config.n) is int
    (tmp_path / "a.yaml").write_text("lr: 1e-4\nweight_decay: 5E+1\nmodel: 1e\n")
    assert read_mapping(tmp_path / "a.yaml", "a") == {
        "lr": 1e-4,
        "weight_decay": 50.0,
        "model": "1e",
    }


@pytest.mark.parametrize(("name", "meant"), [("fold", "folder"), ("epoch", "epochs")])
def test_a_misspelt_setting_of_soft_labels_is_refused_whatever_the_method(name, meant):
    with pytest.raises(ConfigError, match=f"'{name}': did you mean {meant}"):
        config(soft_labels={name: "x"})


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
            "noise is one of exact, uniform, laplace, float, found 'white'; choose",
        ),
        (
            {"precision": "float8"},
            "precision is one of auto, .*, found 'float8'; did you mean float",
        ),
        ({"kernels": "on"}, "kernels is one of auto, off, found 'on'"),
        ({"radii": 0.5}, "radii must be a list"),
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
