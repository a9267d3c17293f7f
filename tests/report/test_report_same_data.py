"""Where runs are about different data there is no best of them: no envelope, no bold value, no "to best"."""

from dataclasses import replace

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report import (
    abstention_table,
    certificate_table,
    envelope_values,
    group_envelope_table,
)
from smoothcert.report.measures.same_data import comparable, data_apart, labels_apart
from smoothcert.report.views.envelope_figure import envelope_figure
from tests.report.cells import best
from tests.report.page import write_report

MNIST, CIFAR10 = (
    {"identity": {"dataset": name, "split": "test"}, "inputs": 3} for name in ("mnist", "cifar10")
)
ENVELOPES = [
    lambda runs: group_envelope_table(runs, [0.0]),
    lambda runs: abstention_table(runs, [0.0]),
    lambda runs: envelope_values(runs, [0.0]),
    envelope_figure,
]


@pytest.fixture
def unlike(make):
    """A store and a log of one method, whose labels differ at index 1: nothing else tells that their data differ."""
    store = make([0.5, 0.5, 0.5], name="gaussian/mine", manifest=MNIST)
    return [store, make([0.9, 0.9, 0.9], name="gaussian/log", label=np.array([0, 1, 0]))]


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_an_envelope_of_runs_with_other_labels_is_refused(unlike, envelope):
    expected = "gaussian/mine and gaussian/log have other labels at the same indices: name runs of one data set"
    with pytest.raises(ConfigError, match=expected):
        envelope(unlike)
    envelope(unlike[:1] * 2)


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_an_envelope_of_two_data_sets_is_refused(make, envelope):
    runs = [
        make([0.5] * 3, name=f"gaussian/{i}", manifest=manifest)
        for i, manifest in enumerate((MNIST, CIFAR10))
    ]
    with pytest.raises(
        ConfigError,
        match="gaussian/0 and gaussian/1 were certified on different data sets, mnist and",
    ):
        envelope(runs)


def test_groups_of_different_data_have_their_own_envelopes_and_no_best_one(unlike, make):
    log = replace(unlike[1], name="theirs/log")
    assert best(group_envelope_table([unlike[0], log], [0.5], by="folder")) == set()
    same = make([0.9, 0.9, 0.9], name="theirs/log")
    assert best(group_envelope_table([unlike[0], same], [0.75], by="folder")) == {(1, 1)}


@pytest.mark.parametrize(
    ("changes", "compared"),
    [
        ({}, True),
        ({"label": np.array([0, 0, 4])}, False),
        ({"manifest": CIFAR10}, False),
        ({"manifest": {"identity": {"dataset": "mnist", "split": "train"}, "inputs": 3}}, False),
        ({"norm": "linf"}, False),
        ({"n": 100_000, "alpha": 0.001}, True),
        ({"n": 10_000}, False),
        ({"alpha": 0.01}, False),
        (
            {
                "alpha": 0.001,
                "manifest": {"identity": MNIST["identity"] | {"simultaneous": True}, "inputs": 3},
            },
            False,
        ),
        ({"idx": np.array([0, 20, 40])}, False),
        (
            {"idx": np.array([0, 20, 40]), "expected": 9},
            True,
        ),  # partial: no best run, and none of the inputs to blame
    ],
)
def test_values_are_best_and_to_best_only_among_runs_that_can_be_compared(
    make, tmp_path, changes, compared
):
    other = {"label": np.zeros(3, np.int64), "manifest": MNIST} | changes
    ours = {"manifest": MNIST, "n": 100_000, "alpha": 0.001}
    runs = [make([0.5] * 3, name="a", **ours), make([0.7] * 3, name="b", **ours)]
    runs.append(make([0.9] * 3, name="c", **other))
    assert comparable(runs) == compared
    assert bool(best(certificate_table(runs, [0.0]))) == compared
    write_report(runs, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    shown = [
        words in page
        for words in ("to best", '<td class="gap">', "Bold: the best", "Highest certified")
    ]
    assert shown == [compared] * 4
    assert ("Best run for each radius" in page) == compared


def test_the_runs_with_other_labels_are_found_wherever_they_stand(make):
    """By the plain definition: compare each pair, input by input."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        runs = []
        for _ in range(4):
            idx = np.sort(rng.choice(8, 3, replace=False))
            runs.append(make([0.5] * 3, idx=idx, label=idx + (rng.random(3) < 0.05)))
        labels = [dict(zip(c.idx.tolist(), c.label.tolist(), strict=True)) for c in runs]
        pairs = {
            (i, j)
            for i in range(4)
            for j in range(i + 1, 4)
            if any(labels[i][k] != labels[j][k] for k in labels[i].keys() & labels[j].keys())
        }
        found = labels_apart(runs)
        assert found in pairs if pairs else found is None
        assert (data_apart(runs) is None) == (not pairs)


def test_runs_without_labels_say_nothing_of_the_data(make):
    unlabelled = make(
        [0.5] * 3, label=np.full(3, -1), predict=np.zeros(3, np.int64), correct=[0, 0, 0]
    )
    assert labels_apart([unlabelled, make([0.5] * 3)]) is None
