"""The catalogue of published values: true to the papers and to the code."""

import dataclasses

import numpy as np
import pytest

from smoothcert.methods import METHODS, method_class
from smoothcert.published.catalogue import all_rows, load_table, rows_for
from smoothcert.published.row import method_defaults
from smoothcert.recipes import load_recipe
from smoothcert.statistics.value import CERTIFIED_ACCURACY
from tests.report.papers import paper_table, percents


def test_defaults_are_those_of_the_code():
    assert {
        name: {
            field.name: field.default
            for field in dataclasses.fields(method_class(name))
            if field.name != "as_printed"  # a setting of the run
        }
        for name in METHODS
    } == method_defaults()


@pytest.mark.parametrize(
    ("table", "paper", "number"),
    [
        ("catrs-supplement/table-4", "catrs", 4),
        ("catrs-supplement/table-5", "catrs", 5),
        ("smoothmix-workshop/table-2", "smoothmix", 2),
    ],
)
def test_rows_are_the_printed_ones(table, paper, number):
    """The text of the paper, read a second time: sigma, method, ACR, accuracies from radius 0 in steps of .25."""
    rows = list(load_table(table).rows)
    printed = paper_table(paper, number)
    assert len(rows) == len(printed)
    for sigma, _, acr, *cells in printed:
        found = [row for row in rows if row.acr.value == float(acr)]
        row = next(row for row in found if row.settings["sigma"] == float(sigma))
        rows.remove(row)
        for place, cell in enumerate(cells):
            assert percents(row)[0.25 * place] == float(cell)


def test_means_over_seeds_are_the_printed_ones():
    means = {method: cells for method, *cells in paper_table("smoothmix", 5)}
    found = {}
    for row in load_table("smoothmix-supplement/table-5").rows:
        assert row.acr.seeds == 5
        found.setdefault(row.label, []).extend([row.acr.value, row.acr.sd])
    assert sorted(found.values()) == sorted([float(c) for c in cells] for cells in means.values())


def test_every_row_can_be_cited_and_compared():
    for row in all_rows():
        assert row.cited[0].isalpha()
        assert row.images > 0
        assert row.acr is None or 0 < row.acr.value < 3.82 * row.settings["sigma"]
        name = row.settings["method"]["name"]
        assert row.settings["method"].keys() - {"name"} <= method_defaults()[name].keys()


def test_beyond_the_printed_columns_nothing_is_claimed():
    row = next(
        row for row in all_rows() if row.dataset == "mnist" and row.acr and row.acr.value == 1.823
    )
    assert row.at(CERTIFIED_ACCURACY, 2.75).value == pytest.approx(0.224)
    assert row.at(CERTIFIED_ACCURACY, 3.0) is None  # a radius that some images reach
    assert row.at(CERTIFIED_ACCURACY, 4.0).value == 0.0  # none can


SAME = {"split": "test", "n": 100_000, "alpha": 0.001, "norm": "l2", "tolerance": 0, "sigma": 0.5}


@pytest.mark.parametrize(
    ("config", "settings", "told"),
    [
        ({}, {}, []),
        ({"seed": 7, "precision": "bfloat16", "kernels": "off"}, {"noise_seed": 9}, []),
        ({"method": {"name": "gaussian"}}, {"dataset": "mnist"}, []),
        ({"sigma": 0.25}, {}, ["sigma = 0.25 here, 0.5 there"]),
        ({"sigma": 0.501}, {}, []),  # numbers agree within 1 %
        ({"dataset": "fashion-mnist"}, {}, ["dataset = fashion-mnist here, mnist there"]),
        ({"model": "resnet20"}, {}, ["model = resnet20 here, lenet there"]),
        (
            {"method": {"name": "stability"}},
            {},
            ["method.name", "method.lam = 2.0 here, None there"],
        ),
        ({"init_from": "runs/before"}, {}, ["starts from weights = True here, False there"]),
        ({"epochs": 3}, {}, ["epochs = 3 here, 90 there"]),
        ({"lr": 0.1, "lr_step": 9}, {}, ["lr = 0.1", "lr_step = 9"]),
        ({}, {"n": 1000, "split": "train"}, ["split = train here, test there", "n = 1000 here"]),
        ({}, {"dataset": "mnist-c"}, ["dataset = mnist-c here, mnist there"]),
        ({}, {"sigma": 0.25}, ["sigma = 0.25 here, 0.5 there"]),
        ({}, {"radii": [0.5]}, ["radii = [0.5] here, all there"]),
        ({}, {"norm": "l1"}, ["norm = l1 here, l2 there"]),
        ({}, {"simultaneous": True, "images": 500}, ["alpha = 2e-06 here, 0.001 there"]),
        ({}, {"simultaneous": False, "images": 500}, []),
    ],
)
def test_how_a_run_was_made_otherwise_is_said(config, settings, told):
    row = load_table("smoothmix-supplement/table-5").rows[9]
    made = dataclasses.asdict(load_recipe(row.recipe).config) | config
    found = row.differences(made, SAME | settings)
    assert len(found) == len(told)
    assert all(any(part in each for each in found) for part in told)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"images": 500, "start": 0, "every": 20}, []),
        ({"images": 500, "idx": np.arange(500) * 20}, []),
        ({"images": 10_000}, ["images = 10000 here, 500 there"]),
        ({"images": 500}, ["images = 0, 1, 2, ... here, 0, 20, 40, ... there"]),
        (
            {"images": 500, "start": 1, "every": 20},
            ["images = 1, 21, 41, ... here, 0, 20, 40, ... there"],
        ),
    ],
)
def test_other_images_are_named(settings, told):
    row = load_table("smoothadv/table-7").rows[0]
    assert row.images == 500
    assert row.other_images(settings) == told


def test_every_row_was_trained_as_its_recipe_with_its_changes_says():
    for row in all_rows():
        first = {"init_from": "runs/before"} if row.starts_from else {}
        assert row.differences({**row.settings, **first}) == [], (row.table, row.label)
        printed = {**row.settings_as_printed, **first, "as_printed": True}
        assert row.differences(printed) == [], (row.table, row.label)


def test_of_rows_of_the_same_settings_the_preferred_comes_first():
    config = dataclasses.asdict(load_recipe("mnist/gaussian-0.50").config)
    found = [(row.table, row.text(row.acr)) for row in rows_for(config)]
    assert found[:2] == [
        ("smoothmix-workshop/table-2", "1.553"),
        ("smoothmix-supplement/table-5", "1.5581 ± 0.0016"),
    ]
    assert ("smoothmix-supplement/table-4", "-") in found  # accuracies alone
