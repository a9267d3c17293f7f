"""Intervals over the choice of inputs, against the binomial law and cases that can be solved, and in every format."""

import csv
import math

import numpy as np
import pytest
from scipy.stats import binom

from smoothcert.report import (
    certificate_table,
    confidence_table,
    report_values,
    run_intervals,
    share_intervals,
)
from smoothcert.report.certificate_table import with_budget
from smoothcert.report.measures.intervals import mean_interval
from tests.report.cells import intervals


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("inputs", [1, 7, 500])
def test_a_share_has_the_interval_of_the_binomial_law(inputs):
    """At each end the observed count, or one further out, has a probability of 2.5 %."""
    counts = sorted({0, 1, inputs // 3, inputs - 1, inputs})
    for count, found in zip(
        counts, share_intervals([k / inputs for k in counts], inputs), strict=True
    ):
        assert found.low <= found.value <= found.high
        assert found.value == count / inputs
        if count == 0:
            assert found.low == 0
        else:
            assert binom.sf(count - 1, inputs, found.low) == pytest.approx(0.025, rel=1e-6)
        if count == inputs:
            assert found.high == 1
        else:
            assert binom.cdf(count, inputs, found.high) == pytest.approx(0.025, rel=1e-6)


def test_what_is_not_known_has_no_interval():
    (found,) = share_intervals([float("nan")], 10)
    assert all(math.isnan(value) for value in (found.value, found.low, found.high))


@pytest.mark.parametrize(("inputs", "most"), [(6, 3), (10, 3)])
def test_a_mean_with_one_value_above_0_is_binomial(inputs, most):
    """Of N inputs one has radius N, so that a resampled mean is Bin(N, 1/N), whose 97.5 % quantile is known."""
    assert binom.ppf(0.975, inputs, 1 / inputs) == most
    found = mean_interval(np.array([0.0] * (inputs - 1) + [inputs]), rng(), resamples=4000)
    assert (found.value, found.low, found.high) == (1.0, 0.0, most)


@pytest.mark.parametrize(
    ("radii", "told"), [([0.48], True), ([0.1, 0.5], True), ([0.5] * 9, True), ([1, 2] * 3, False)]
)
def test_the_bootstrap_gives_no_interval_that_it_cannot_know(make, radii, told):
    """Of one input it would be [x, x], as if nothing else could come."""
    c = make(radii, name="run", sigma=0.5)
    table = certificate_table([c], [0.0], intervals=True)
    place = table.head.index("ACR")
    assert (table.cells[0][place].interval == "") == told
    assert table.cells[0][len(table.columns) - 1].interval != ""  # that of the share
    note = "run: the ACR has no interval: the bootstrap takes 6 inputs or more whose values are not all equal"
    assert (note in table.notes) == told
    (row,) = report_values([c], [0.0], intervals=True)["rows"]
    assert all(map(math.isnan, row["acr_interval"])) == told


def test_a_mean_of_many_inputs_is_normal(make):
    radius, correct = rng(1).exponential(1.0, 4000), rng(2).random(4000) < 0.7
    found = run_intervals(make(radius, correct), [0.5], rng()).mean
    values = radius * correct
    half = 1.96 * values.std() / math.sqrt(4000)
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.15 * half
    )


@pytest.fixture
def table(make):
    """Of 8 inputs 6 and 4 are certified, which have the intervals 34.9 to 96.8 and 15.7 to 84.3 %."""
    runs = [
        make([0.3] * 8, [1, 1, 1, 0] * 2, name="a", n=100),
        make([0.5] * 8, [1, 1, 0, 0] * 2, name="b", n=100),
    ]
    return certificate_table(runs, [0.0, 0.5], intervals=True)


def test_text_and_markdown(table):
    assert "75.0 [34.9, 96.8]" in table.to_text(terminal=False)
    assert "**75.0** \\[34.9, 96.8]" in table.to_markdown()
    assert "\n- the intervals of 95 % are exact for shares (Clopper-Pearson)" in table.to_markdown()
    lines = [line.rstrip() for line in table.to_text(terminal=False).splitlines()[:4]]
    assert len({len(line) for line in lines}) == 1


def test_a_terminal_has_them_below(table):
    lines = table.to_text(terminal=True).splitlines()
    assert any("34.9, 96.8" in line and "75.0" not in line for line in lines)


def test_latex(table):
    assert r"& \textbf{75.0} {\scriptsize [34.9, 96.8]} &" in table.to_latex()


def test_csv_has_columns_for_them(table):
    head, first, second = csv.reader(table.to_csv().splitlines())
    assert head == [
        "run", "sigma", "inputs", "ACR", "ACR lower", "ACR upper", "abstain %", "abstain % lower", "abstain % upper",
        "r=0.00", "r=0.00 lower", "r=0.00 upper", "r=0.50", "r=0.50 lower", "r=0.50 upper",
    ]  # fmt: skip
    assert first[9:] == ["75.0", "34.9", "96.8", "0.0", "0.0", "36.9"]
    assert second[6:] == ["50.0", "15.7", "84.3"] * 3


def test_the_page_moves_them_with_their_columns(table, make):
    runs = [make([0.3] * 8, name="a", n=100), make([0.5] * 8, name="b", n=100)]
    moved = with_budget(table, runs)
    place = moved.head.index("ACR")
    assert place == table.head.index("ACR") + 2
    assert intervals(moved)[0, place] == intervals(table)[0, place - 2]
    assert moved.cells[0][moved.columns.index("r=0.00")].interval == "[34.9, 96.8]"


def test_cells_without_a_value_have_none(make):
    manifest = {"identity": {"procedure": "radius", "radii": [0.5]}}
    listed = make([0.5, 0.0], [1, 0], manifest=manifest)
    answers = {"label": np.full(6, -1), "predict": np.arange(6)}
    unlabelled = make([0.5, 0.6] * 3, [0] * 6, sigma=0.5, **answers)
    table = certificate_table([listed, unlabelled], [0.0, 0.5], intervals=True)
    assert set(intervals(table)) == {
        (0, table.columns.index("r=0.50")),
        (1, table.columns.index("abstain %")),
    }
    alone = certificate_table([unlabelled], [0.0, 0.5], intervals=True)
    assert alone.cells[0][alone.columns.index("mean radius")].interval.startswith("[0.5")
    assert alone.cells[0][alone.columns.index("share r=0.50")].interval == "[54.1, 100.0]"


def test_confidence_has_them_too(make):
    runs = [
        make([0.3] * 4, [1, 1, 1, 0], name="a", sigma=0.5),
        make([0.3] * 4, name="b", sigma=0.5, norm="l1"),
    ]
    plain, table = confidence_table(runs), confidence_table(runs, intervals=True)
    assert intervals(plain) == {}
    assert (
        table.rows
        == plain.rows
        == (("a", "4", "75.0", "75.0", "75.0", "0.0", "0.0", "0.0", "0.0", "0.0"),)
    )
    assert table.cells[0][2].interval == "[19.4, 99.4]"
    assert (
        table.notes[0]
        == "b: p_A is not known: a log tells it by l2 radii alone, and its radii are in norm l1"
    )
    assert "Correct (\\%) with confidence of at least $p$" in table.to_latex()


def test_values_for_programs(make):
    c = make([0.3] * 8, [1, 1, 1, 0] * 2, sigma=0.5)
    (plain,), (row,) = (
        report_values([c], [0.0], intervals=asked)["rows"] for asked in (False, True)
    )
    assert (plain["acr_interval"], plain["confidence"][0]["interval"]) == (None, None)
    assert row["acr_interval"][0] < row["acr"] < row["acr_interval"][1]
    assert row["certified_accuracy"][0]["interval"] == pytest.approx([0.349, 0.968], abs=5e-4)
    assert row["confidence"][0] == {
        "p": 0.5, "share": 0.75, "interval": row["certified_accuracy"][0]["interval"],
    }  # fmt: skip
