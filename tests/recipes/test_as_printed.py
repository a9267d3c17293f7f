"""Recipes as printed: what the texts of the papers say, written out here a second time."""

import re
from dataclasses import asdict

import pytest

from smoothcert.config import dump_config
from smoothcert.published.catalogue import load_table, rows_for
from smoothcert.recipes import load_recipe, recipe_names

# Consistency, appendix A.1, and SmoothMix, appendix B.3, "every model"; SmoothAdv, appendices D and E.1; CAT-RS,
# appendices C and D.4. The text of CAT-RS says after how many epochs the rate drops, but not when training ends.
JEONG = ["gaussian", "stability", "macer", "consistency", "smoothadv-consistency", "smoothmix"]
SCHEDULES = [  # recipes, rate, epochs, batch, epochs of the drops, Nesterov
    ([f"mnist/{name}" for name in (*JEONG, "smoothadv")], 0.01, 90, 256, (30, 60), True),
    ([f"cifar10/{name}" for name in JEONG if name != "macer"], 0.1, 150, 256, (50, 100), True),
    (["imagenet/consistency"], 0.1, 90, 200, (30, 60), True),
    (["imagenet/smoothmix"], 0.1, 90, None, (30, 60), True),
    (["cifar10/smoothadv", "imagenet32/smoothadv"], 0.1, 150, 256, (50, 100), False),
    (["imagenet/gaussian", "imagenet/smoothadv"], 0.1, 90, 400, (30, 60), False),
    (["mnist/catrs", "fashion-mnist/"], 0.01, None, None, (50, 100), False),
    (["cifar10/catrs", "cifar100/"], 0.1, None, None, (50, 100), False),
    (["imagenet/catrs"], 0.1, 90, None, (30, 60, 85), False),
]
NOT_IN_THEM = r"sun|denoiser|mini|cifar10/macer|cifar10/gaussian-0.12|finetuned"


def schedule(name):
    """The last that fits: `cifar10/smoothadv` is not `cifar10/smoothadv-consistency`."""
    fits = [
        (len(prefix), *own)
        for prefixes, *own in SCHEDULES
        for prefix in prefixes
        if name.startswith(prefix)
    ]
    return max(fits)[1:]


@pytest.mark.parametrize("name", [n for n in recipe_names() if not re.search(NOT_IN_THEM, n)])
def test_the_schedule_is_that_of_the_text(name):
    rate, epochs, batch, drops, nesterov = schedule(name)
    config = load_recipe(name, as_printed=True).config
    assert config.as_printed
    assert epochs in (None, config.epochs)
    assert batch in (None, config.batch_size)
    assert (config.momentum, config.nesterov, config.weight_decay) == (0.9, nesterov, 1e-4)
    for place, drop in enumerate(drops):
        assert config.learning_rate(drop - 1) == pytest.approx(rate * 0.1**place)
        assert config.learning_rate(drop) == pytest.approx(rate * 0.1 ** (place + 1))
    assert config.learning_rate(config.epochs - 1) == pytest.approx(rate * 0.1 ** len(drops))
    scaled = config.dataset.startswith("cifar") or config.dataset == "imagenet32"
    assert config.normalisation in ((config.dataset, "cifar10") if scaled else ("none", "imagenet"))


S = ("0.25", "0.50", "1.00")
HYPERPARAMETERS = {  # at sigma 0.25, 0.5 and 1, or alike at all
    "mnist/stability-{}": {"lam": 2},
    "mnist/macer-{}": {"noises": 16, "beta": 16, "gamma": 8, "lam": (16, 16, 6), "deferred": 0},
    "mnist/smoothadv-{}": {"noises": 4, "steps": 10, "epsilon": 1, "attack": "pgd"},
    "mnist/consistency-{}": {"noises": 2, "lam": (10, 5, 5), "eta": 0.5},
    "mnist/smoothadv-consistency-{}": {
        "noises": 4,
        "lam": 1,
        "eta": 0.5,
        "steps": 10,
        "epsilon": 1,
    },
    "mnist/smoothmix-{}": {"noises": 4, "alpha": 1, "steps": (2, 4, 8), "eta": 5, "warmup": 1},
    "mnist/smoothmix-{}-eta1": {"noises": 4, "alpha": 1, "steps": (2, 4, 8), "eta": 1, "warmup": 1},
    "mnist/smoothmix-{}-eta1-onestep": {"alpha": 1, "steps": (2, 4, 8), "eta": 1, "one_step": True},
    "mnist/catrs-{}": {"noises": 4, "steps": 4, "epsilon": 1, "lam": 1},
    "fashion-mnist/macer-{}": {"noises": 16, "lam": (16, 8, 2), "deferred": 0},
    "fashion-mnist/smoothmix-{}": {"noises": 4, "alpha": 1, "steps": (2, 4, 8), "warmup": 1},
    "cifar10/stability-{}": {"lam": (2, 2, 1)},
    "cifar10/macer-{}": {"noises": 16, "beta": 16, "gamma": 8, "lam": (12, 4, 12)},
    "cifar10/smoothadv-{}": {"steps": 10, "noises": (4, 2, 2), "epsilon": (1, 2, 2)},
    "cifar10/consistency-{}": {"lam": (20, 10, 10), "eta": 0.5},
    "cifar10/smoothmix-{}": {"noises": 2, "alpha": (0.5, 1, 2), "steps": 4, "eta": 5, "warmup": 1},
    "cifar10/catrs-{}": {"noises": 4, "steps": 4, "epsilon": 1, "lam": (0.5, 1, 2)},
    "cifar100/macer-{}": {"noises": 16, "lam": (12, 4), "deferred": 0},
    "cifar100/smoothadv-{}": {"steps": 10, "noises": (4, 8), "epsilon": 1},
    "imagenet/consistency-{}": {"eta": (None, 0.5, 0.5)},
    "imagenet/smoothadv-{}": {"steps": 1, "noises": 1, "epsilon": (1, 1, 2)},
    "imagenet/smoothmix-{}-onestep": {"steps": 1, "noises": 1, "alpha": 8, "one_step_radius": 1},
    "imagenet/catrs-{}": {"noises": 2, "steps": 1, "lam": 2, "double_from": 80},
}


@pytest.mark.parametrize("name", HYPERPARAMETERS)
def test_hyperparameters_are_those_of_the_text(name):
    found = [name.format(sigma) for sigma in S if name.format(sigma) in recipe_names()]
    assert found
    for recipe in found:
        place = S.index(re.search(r"\d\.\d\d", recipe)[0])
        method = load_recipe(recipe, as_printed=True).config.method
        for key, said in HYPERPARAMETERS[name].items():
            said = said[place] if isinstance(said, tuple) else said
            assert method.get(key, 0) == said, (recipe, key)


def test_only_overrides_come_before_the_text(tmp_path):
    name = "cifar10/gaussian-0.50"
    config = load_recipe(name, {"epochs": 3}, as_printed=True).config
    assert (config.epochs, config.batch_size, config.lr_step) == (3, 256, 50)
    assert load_recipe(name, {"as_printed": True, "epochs": 3}).config == config  # --as-printed
    written = tmp_path / "config.yaml"
    written.write_text(dump_config(config))
    assert load_recipe(str(written)).config == config
    own = tmp_path / "mine.yaml"
    own.write_text(
        "dataset: mnist\nmodel: lenet\nmethod: {name: macer, lam: 2, deferred: 5}\n"
        "as_printed: {method: {deferred: 0}}\n"
        "by_sigma: {0.5: {as_printed: {lr: 0.2, method: {lam: 3}}}}\n"
    )
    config = load_recipe(str(own), {"sigma": 0.5}, as_printed=True).config
    values = {key: config.method[key] for key in ("name", "lam", "deferred")}
    assert (values, config.lr) == ({"name": "macer", "lam": 3, "deferred": 0}, 0.2)
    assert load_recipe(str(own), {"sigma": 0.5}).config.method["lam"] == 2


def test_rows_of_tables_have_a_text_too():
    """SmoothMix says m = 8 on CIFAR-10 where its row at sigma 0.25 is that of m = 4, and CAT-RS has no Nesterov."""

    def row(table, label):
        return next(row for row in load_table(table).rows if row.label == label)

    smoothadv = row("smoothmix-workshop/table-1", "SmoothAdv")
    assert smoothadv.settings["method"]["noises"] == 4
    assert smoothadv.settings_as_printed["method"]["noises"] == 8
    base = row("catrs-supplement/table-8", "L_base (Gaussian)").settings_as_printed
    assert (base["method"]["name"], base["method"]["low"], base["method"]["lam"]) == (
        "catrs",
        "mean",
        0,
    )
    assert (base["epochs"], base["lr_step"], base["lr_late"]) == (150, 50, False)
    assert not base["nesterov"]


def test_what_is_published_is_found_for_the_text_as_well():
    name = "mnist/smoothmix-0.25-eta1"
    own, printed = (load_recipe(name, as_printed=text).config for text in (False, True))
    assert [row.label for row in rows_for(asdict(own))] == [
        row.label for row in rows_for(asdict(printed))
    ]
    assert rows_for(asdict(own))
    changed = load_recipe(name, {"method": {"steps": 2}}).config
    assert rows_for(asdict(changed)) == []  # neither of both
