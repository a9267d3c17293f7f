"""How a run finds its published row, and how the two stand beside each other."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from smoothcert.recipes.recipe import load_recipe
from smoothcert.report import certificate_table, find_published, report_values
from smoothcert.report.measures.published_comparison import (
    OF_ROUNDED,
    deviation,
    differences_in_making,
)
from smoothcert.report.tables.published import published_table


def of_settings(make, config, rows=10_000, **changes):
    return make(np.full(rows, 0.5), sigma=config["sigma"], config=config, **changes)


def mnist(**method):
    return {
        "dataset": "mnist",
        "model": "lenet",
        "sigma": 0.5,
        "method": method,
        "epochs": 90,
        "seed": 3,
    }


@pytest.mark.parametrize(
    ("changes", "acr"),
    [
        ({"method": {"name": "consistency", "noises": 2, "lam": 5, "eta": 0.5}}, 1.6549),
        (
            {"method": {"name": "consistency", "lam": 5.0}},
            1.6549,
        ),  # what is not said has its default
        ({"method": {"name": "consistency"}}, None),  # lam 10 is the row of sigma 0.25
        ({"method": {"name": "smoothmix"}}, 1.6932),
        ({"method": {"name": "smoothmix", "one_step": True}}, 1.6851),
        ({"method": {"name": "smoothmix", "max_norm": 2.0}}, None),
        ({"method": {"name": "smoothadv", "epsilon": 255 / 256}}, 1.6872),
        ({"method": {"name": "smoothadv", "epsilon": 1.0}}, 1.6872),
        ({"method": {"name": "smoothadv", "epsilon": 2.0}}, None),
        ({"method": {"name": "gaussian"}, "model": "resnet20"}, None),
        ({"method": {"name": "gaussian"}, "dataset": "mnist-mini"}, None),
        ({"method": {"name": "mypackage.Mine"}}, None),
        ({"method": "gaussian"}, 1.5581),
        ({"method": None}, None),
    ],
)
def test_a_run_finds_its_row_by_its_settings(make, changes, acr):
    row = find_published(of_settings(make, mnist(name="gaussian") | changes))
    assert (row.acr.value if row else None) == acr


def test_no_row_for_a_log_or_for_another_noise_than_trained_with(make):
    assert find_published(make([0.5], sigma=0.5)) is None
    assert find_published(make([0.5], sigma=0.25, config=mnist(name="gaussian"))) is None
    more = {"self_training": {"path": "more.npz", "weight": 0.5}}, {"init_from": "runs/before"}
    for settings in more:
        assert find_published(of_settings(make, mnist(name="gaussian") | settings)) is None
    assert find_published(
        of_settings(make, mnist(name="gaussian") | {"self_training": {}, "init_from": None})
    )


def test_the_row_on_as_many_inputs_is_preferred(make):
    config = {
        "dataset": "cifar10",
        "model": "resnet110",
        "sigma": 1.0,
        "method": {"name": "gaussian"},
    }
    assert find_published(of_settings(make, config)).acr.value == 0.5105
    assert find_published(of_settings(make, config, 500)).acr.value == 0.542
    assert find_published(of_settings(make, config, 3, expected=500)).acr.value == 0.542
    assert find_published(of_settings(make, config, 77)).acr.value == 0.5105
    method = {"name": "smoothadv", "noises": 1, "epsilon": 1.0, "steps": 1}
    config = {"dataset": "imagenet", "model": "resnet50", "sigma": 0.5, "method": method}
    assert [
        find_published(of_settings(make, config, inputs)).acr.value for inputs in (427, 500)
    ] == [
        0.825,
        0.849,
    ]


def test_deviation_is_in_standard_deviations_where_they_are_known(make):
    config = mnist(name="gaussian")
    c = of_settings(make, config)
    row = find_published(c)
    found = deviation(c, row)
    assert found.acr == pytest.approx(0.5 - 1.5581)
    assert found.deviations == pytest.approx((0.5 - 1.5581) / 0.0016)
    assert (row.text(row.acr), found.printed()) == ("1.5581 ± 0.0016", "-661.3 s.d.")
    fashion = {**config, "dataset": "fashion-mnist"}
    c = of_settings(make, fashion)
    assert (
        find_published(c).text(find_published(c).acr),
        deviation(c, find_published(c)).printed(),
    ) == (
        "1.056",
        "-0.556",
    )


def test_deviation_rounds_radii_as_the_papers_do(make):
    c = make(np.full(10_000, 1.9057), sigma=0.5, config=mnist(name="gaussian"))
    assert deviation(c, find_published(c)).acr == pytest.approx(1.91 - 1.5581)
    # so that it does not belong to the ACR of exact radii beside it
    assert OF_ROUNDED in certificate_table([c]).notes
    assert OF_ROUNDED not in certificate_table([c], rounded=True).notes
    assert OF_ROUNDED not in certificate_table([replace(c, n=1000)]).notes  # no difference is shown
    exact, digits = of_settings(make, mnist(name="gaussian")), make([0.12345])
    assert OF_ROUNDED not in certificate_table([exact, digits]).notes


def test_table_shows_published_beside_ours_and_says_what_differs(make):
    alike = of_settings(make, mnist(name="gaussian"), name="alike", n=100_000, alpha=0.001)
    ours = of_settings(make, mnist(name="gaussian"), 4, name="mine", n=1000, alpha=0.001)
    other = make([0.5] * 4, name="other", sigma=0.5)
    table = certificate_table([ours, other, alike], [0.0, 0.5])
    assert table.head == ("run", "sigma", "inputs", "ACR", "published", "difference", "abstain %")
    # measured otherwise, a difference would say nothing about the training: none is shown
    beside = [("1.5581 ± 0.0016", "-"), ("-", "-"), ("1.5581 ± 0.0016", "-661.3 s.d.")]
    assert [row[4:6] for row in table.rows] == beside
    assert table.best == frozenset()  # other numbers of inputs
    assert (0, 3) in certificate_table([ours, other], [0.0, 0.5]).best
    assert any(
        "n = 1000 here, 100000 there; images = 4 here, 10000 there" in note for note in table.notes
    )
    assert published_table([ours], [0.0]) is None
    assert r"$\pm$" in table.to_latex()
    assert len(certificate_table([other], [0.0]).head) == 5


def test_published_accuracies_radius_by_radius(make):
    c = of_settings(make, mnist(name="gaussian"))
    table = published_table([c], [0.0, 0.25, 0.3, 1.0, 3.0])
    ours, published, gap, verdicts, *mean = table.rows
    assert ours == ("run", "ours", "0.500", "100.0", "100.0", "-", "0.0", "-")
    name = "smoothmix-workshop/table-2: Gaussian"
    assert published == (name, "published", "1.553", "99.2", "98.3", "-", "89.7", "0.0")
    gaps = [cell.partition(" ±")[0] for cell in gap[2:]]
    assert gaps == ["-1.053", "+0.8", "+1.7", "-", "-89.7", "-"]
    assert verdicts[2:] == ("different", "different", "not judged", "-", "different", "-")
    assert [row[1:3] for row in mean][:2] == [("ours", "0.5000"), ("published", "1.5581 ± 0.0016")]
    assert table.notes == ("not judged: one seed of ours and no published spread",)
    two = [c, replace(c, name="again", config=c.config | {"seed": 4})]
    assert published_table(two, [0.0]).rows[0][0] == "run, ... (2 runs)"
    (own, other, _, words) = published_table(two, tables=["smoothmix-supplement/table-4"]).rows
    assert (own[3], other[3], words[3]) == ("100.00", "99.15 ± 0.03", "different")
    assert published_table(two, tables=["smoothmix-supplement/table-8"]) is None
    assert published_table([make([0.5])], [0.0]) is None


def trained(recipe, **changes):
    """The config.yaml of a run of this recipe."""
    return asdict(load_recipe(recipe, changes).config)


@pytest.mark.parametrize(
    ("recipe", "changes", "told"),
    [
        ("mnist/gaussian-0.50", {"epochs": 1}, ["epochs = 1 here, 90 there"]),
        ("mnist/gaussian-0.50", {"epochs": 91}, ["epochs = 91 here, 90 there"]),
        (
            "mnist/gaussian-0.50",
            {"lr": 0.1, "lr_step": 9},
            ["lr = 0.1 here, 0.01 there", "lr_step = 9 here, 30 there"],
        ),
        (
            "mnist/gaussian-0.50",
            {"batch_size": 64, "lr_late": False},
            ["batch_size = 64 here, 256 there"],
        ),
        ("mnist/gaussian-0.50", {"augment": "crop-flip"}, ["augment = crop-flip here, none there"]),
        (
            "mnist/gaussian-0.50",
            {"optimizer": "adam", "lr_factor": 0.5},
            ["optimizer = adam here, sgd there"],
        ),
        (
            "mnist/catrs-0.50",
            {"soft_labels": {"epochs": 1}},
            ["soft_labels = epochs=1 here, as the run there"],
        ),
        # what no paper fixes
        (
            "mnist/gaussian-0.50",
            {"seed": 7, "precision": "bfloat16", "kernels": "off", "evaluate_every": 5},
            [],
        ),
        (
            "mnist/catrs-0.50",
            {"soft_labels": {"n": 50, "folder": "votes", "precision": "bfloat16"}},
            [],
        ),
    ],
)
def test_a_run_that_was_trained_otherwise_shows_no_difference(make, recipe, changes, told):
    c = of_settings(make, trained(recipe, **changes), name="mine", n=100_000, alpha=0.001)
    differs = differences_in_making(c, find_published(c))
    assert set(told) <= set(differs)
    assert bool(differs) == bool(told)
    table, values = certificate_table([c]), report_values([c])
    assert ("difference" in table.head) == (not told)
    assert (values["rows"][0]["published"]["difference"] is None) == bool(told)
    notes = [
        note for note in table.notes if "not trained or measured as the published value" in note
    ]
    assert len(notes) == bool(told)
    assert all(part in notes[0] for part in told)
    assert (published_table([c], [0.0]) is None) == bool(told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"idx": np.arange(500) * 20}, None),
        ({"idx": np.arange(500)}, "images = 0, 1, 2, ... here, 0, 20, 40, ... there"),
        ({"idx": np.arange(500) * 20 + 1}, "images = 1, 21, 41, ... here, 0, 20, 40, ... there"),
        (
            {"idx": np.append(np.arange(499) * 20, 9999)},
            "images = 9960, 9999, ... here, 9960, 9980, ... there",
        ),
        (
            {"idx": np.arange(500) * 20, "bound": "multiclass"},
            "bound = multiclass here, binary there",
        ),
        ({"split": "train"}, "split = train here, test there"),
        ({"simultaneous": True}, "alpha = 2e-06 here, 0.001 there"),
        ({"tolerance": 0.01}, "tolerance = 0.01 here, 0 there"),
    ],
)
def test_a_run_that_was_measured_otherwise_shows_no_difference(make, changes, told):
    """SmoothAdv's logs of CIFAR-10 have every 20th image."""
    identity = {
        key: changes.pop(key) for key in ("split", "simultaneous", "tolerance") if key in changes
    }
    changes = {"idx": np.arange(500) * 20, "manifest": {"identity": identity}} | changes
    c = of_settings(make, trained("cifar10/gaussian-1.00"), 500, n=100_000, alpha=0.001, **changes)
    assert find_published(c).images == 500
    assert differences_in_making(c, find_published(c)) == ([] if told is None else [told])
    assert ("difference" in certificate_table([c]).head) == (told is None)
