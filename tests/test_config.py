"""Recipes and settings: every shipped one parses, and mistakes are answered in words."""

import dataclasses
import re

import pytest

from smoothcert.config import TrainConfig, dump_config, load_recipe, read_config, recipe_names
from smoothcert.data import DATASETS
from smoothcert.errors import ConfigError
from smoothcert.methods import build_method
from smoothcert.models import NORMALISATIONS, build_model

GOOD = {"dataset": "mnist", "model": "lenet", "sigma": 0.5, "method": {"name": "gaussian"}}


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_is_usable(name):
    recipe = load_recipe(name)
    config = recipe.config
    dataset, rest = name.split("/")
    assert config.dataset == dataset
    method = build_method(config.method)
    label = "smoothadv-consistency" if config.method.get("base") == "smoothadv" else config.method["name"]
    assert re.fullmatch(f"{label}-{config.sigma:.2f}(-[a-z0-9]+)*", rest)  # what follows sigma names a variant
    assert recipe.about
    assert bool(config.soft_labels) == method.uses_soft_labels
    info = DATASETS[dataset]
    build_model(config.model, info.classes, config.normalisation)
    assert config.normalisation in NORMALISATIONS
    assert {"acr", "source"} <= recipe.published.keys() or dataset == "mnist-mini"


def test_no_two_recipes_are_the_same():
    configs = [dump_config(load_recipe(name).config) for name in recipe_names()]
    assert len(set(configs)) == len(configs)


def test_every_published_table_row_has_its_recipe():
    """Sigmas a data set was published with, by method; variants come on top."""
    three, two = ("0.25", "0.50", "1.00"), ("0.25", "0.50")
    methods = ("gaussian", "stability", "smoothadv", "macer", "consistency", "smoothmix", "catrs")
    wanted = {f"{data}/{m}-{s}" for data in ("mnist", "fashion-mnist", "cifar10") for m in methods for s in three}
    wanted |= {f"{data}/smoothadv-consistency-{s}" for data in ("mnist", "cifar10") for s in three}
    wanted |= {f"{data}/smoothmix-{s}-onestep" for data in ("mnist", "cifar10") for s in three}
    wanted |= {f"mnist/smoothmix-{s}-eta1{step}" for s in three for step in ("", "-onestep")}
    wanted |= {f"cifar100/{m}-{s}" for m in methods for s in two} - {"cifar100/smoothmix-0.50"}
    wanted |= {f"imagenet/{m}-{s}" for m in ("gaussian", "consistency", "smoothadv") for s in ("0.50", "1.00")}
    wanted |= {"cifar100/smoothmix-0.50-onestep", "imagenet/catrs-1.00"}
    wanted |= {f"imagenet/smoothmix-{s}-onestep" for s in ("0.50", "1.00")}
    assert wanted <= set(recipe_names())


def test_overrides_replace_settings_and_merge_into_the_method():
    config = load_recipe("mnist/consistency-0.50", {"sigma": 0.25, "method": {"lam": 7.0}}).config
    assert config.sigma == 0.25
    assert config.method == {"name": "consistency", "noises": 2, "lam": 7.0, "eta": 0.5}


def test_overrides_merge_into_the_soft_labels():
    config = load_recipe("mnist/catrs-0.50", {"soft_labels": {"folder": "shared"}}).config
    assert config.soft_labels == {"n": 10_000, "folder": "shared"}


def test_named_drops_replace_the_regular_ones():
    rates = [round(load_recipe("imagenet/catrs-1.00").config.learning_rate(epoch), 9) for epoch in range(90)]
    assert [rates.count(rate) for rate in (0.1, 0.01, 0.001, 0.0001)] == [31, 30, 24, 5]


def test_another_method_drops_the_recipes_hyperparameters():
    config = load_recipe("mnist/consistency-0.50", {"method": {"name": "gaussian"}}).config
    assert config.method == {"name": "gaussian"}


def test_a_recipe_of_yours_by_path(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: mnist\nmodel: lenet\nsigma: 0.5\nmethod: {name: gaussian}\nweight_decay: 1e-3\n")
    assert load_recipe(str(path)).config.weight_decay == 0.001  # YAML 1.1 alone would call 1e-3 a text


def test_a_written_configuration_reads_back_the_same(tmp_path):
    config = load_recipe("cifar10/gaussian-0.25", {"seed": 3}).config
    (tmp_path / "config.yaml").write_text(dump_config(config))
    assert read_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataset: mnist\n", "missing setting of recipe .*: model, sigma, method"),
        ("- a list\n", "expected a YAML mapping of settings in .*, found list"),
        ("a: [1\n", "could not read settings from"),
        ("dataset: mnist\nmodel: lenet\nsigma: loud\nmethod: {name: gaussian}\n", "sigma.*Got value: loud"),
        ("dataset: mnist\nmodel: lenet\nsigma: 0.5\nmethod: {name: gaussian}\nepoch: 3\n", "did you mean epochs"),
    ],
)
def test_unusable_recipe_files_are_answered_in_words(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path))


def test_an_unknown_recipe_offers_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown recipe 'mnist/gausian-0.50': did you mean mnist/gaussian-0.50"):
        load_recipe("mnist/gausian-0.50")


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
