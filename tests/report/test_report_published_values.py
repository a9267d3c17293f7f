"""How a run finds its published row, and how the two stand beside each other."""

from dataclasses import replace

import numpy as np
import pytest

from smoothcert.report import certificate_table, find_published
from smoothcert.report.measures.published_comparison import OF_ROUNDED, deviation
from smoothcert.report.tables.tables import published_table


def of_settings(make, config, rows=10_000, **changes):
    return make(np.full(rows, 0.5), sigma=config["sigma"], config=config, **changes)


def mnist(**method):
    return {"dataset": "mnist", "model": "lenet", "sigma": 0.5, "method": method, "epochs": 90, "seed": 3}


@pytest.mark.parametrize(
    ("changes", "acr"),
    [
        ({"method": {"name": "consistency", "noises": 2, "lam": 5, "eta": 0.5}}, 1.657),
        ({"method": {"name": "consistency", "lam": 5.0}}, 1.657),  # what is not said has its default
        ({"method": {"name": "consistency"}}, None),  # lam 10 is the row of sigma 0.25
        ({"method": {"name": "smoothmix"}}, 1.694),
        ({"method": {"name": "smoothmix", "one_step": True}}, 1.685),
        ({"method": {"name": "smoothmix", "max_norm": 2.0}}, None),
        ({"method": {"name": "smoothadv", "epsilon": 255 / 256}}, 1.687),
        ({"method": {"name": "smoothadv", "epsilon": 1.0}}, 1.687),
        ({"method": {"name": "smoothadv", "epsilon": 2.0}}, None),
        ({"method": {"name": "gaussian"}, "model": "resnet20"}, None),
        ({"method": {"name": "gaussian"}, "dataset": "mnist-mini"}, None),
        ({"method": {"name": "mypackage.Mine"}}, None),
        ({"method": "gaussian"}, 1.553),
        ({"method": None}, None),
    ],
)
def test_a_run_finds_its_row_by_its_settings(make, changes, acr):
    row = find_published(of_settings(make, mnist(name="gaussian") | changes))
    assert (row.acr if row else None) == acr


def test_no_row_for_a_log_or_for_another_noise_than_trained_with(make):
    assert find_published(make([0.5], sigma=0.5)) is None
    assert find_published(make([0.5], sigma=0.25, config=mnist(name="gaussian"))) is None
    more = {"self_training": {"path": "more.npz", "weight": 0.5}}, {"init_from": "runs/before"}
    for settings in more:
        assert find_published(of_settings(make, mnist(name="gaussian") | settings)) is None
    assert find_published(of_settings(make, mnist(name="gaussian") | {"self_training": {}, "init_from": None}))


def test_the_row_on_as_many_inputs_is_preferred(make):
    config = {"dataset": "cifar10", "model": "resnet110", "sigma": 1.0, "method": {"name": "gaussian"}}
    assert find_published(of_settings(make, config)).acr == 0.5105
    assert find_published(of_settings(make, config, 500)).acr == 0.542
    assert find_published(of_settings(make, config, 3, expected=500)).acr == 0.542
    assert find_published(of_settings(make, config, 77)).acr == 0.5105
    method = {"name": "smoothadv", "noises": 1, "epsilon": 1.0, "steps": 1}
    config = {"dataset": "imagenet", "model": "resnet50", "sigma": 0.5, "method": method}
    assert [find_published(of_settings(make, config, inputs)).acr for inputs in (427, 500)] == [0.825, 0.849]


def test_deviation_is_in_standard_deviations_where_they_are_known(make):
    config = mnist(name="gaussian")
    c = of_settings(make, config)
    row = find_published(c)
    found = deviation(c, row)
    assert found.acr == pytest.approx(0.5 - 1.5581)
    assert found.deviations == pytest.approx((0.5 - 1.5581) / 0.0016)
    assert (row.printed(), found.printed()) == ("1.5581 ± 0.0016", "-661.3 s.d.")
    fashion = {**config, "dataset": "fashion-mnist"}
    c = of_settings(make, fashion)
    assert (find_published(c).printed(), deviation(c, find_published(c)).printed()) == ("1.056", "-0.556")


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
    assert any("inputs = 4 here, 10000 there; n = 1000 here, 100000 there" in note for note in table.notes)
    assert published_table([ours], [0.0]) is None
    assert r"$\pm$" in table.to_latex()
    assert len(certificate_table([other], [0.0]).head) == 5


def test_published_accuracies_radius_by_radius(make):
    c = of_settings(make, mnist(name="gaussian"))
    table = published_table([c], [0.0, 0.25, 0.3, 1.0, 3.0])
    assert table.rows == (
        ("run", "ours", "0.500", "100.0", "100.0", "100.0", "0.0", "0.0"),
        ("", "published", "1.553", "99.2", "98.3", "-", "89.7", "0.0"),
        ("", "difference", "-1.053", "+0.8", "+1.7", "-", "-89.7", "+0.0"),
    )
    assert published_table([make([0.5])], [0.0]) is None
