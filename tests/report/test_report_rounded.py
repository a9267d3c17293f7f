"""Radii of 3 digits, as published logs have them, may be above the proved ones: whatever shows them says so."""

from pathlib import Path

import numpy as np
import pytest

from smoothcert.evaluation.reanalysis import reanalyse
from smoothcert.report import (
    certificate_table,
    certified_accuracy_linf,
    difference_table,
    difference_values,
    log_in_linf,
    read_log,
    read_store,
)
from smoothcert.report.measures.corrupted import Corrupted
from smoothcert.report.notes import ROUNDED
from smoothcert.report.table import Table
from smoothcert.report.views.differences import ALL_ROUNDED, difference_figure
from tests.report.cells import best
from tests.report.drawn import bands, lines
from tests.report.page import a_report, draw, report_tables, write_report

OF_RADII = ("accuracy", "differences", "envelope", "corruptions")


@pytest.fixture
def runs(make):
    return [make([0.1234, 1.7456], name=name, sigma=0.5) for name in ("gaussian", "smoothmix")]


@pytest.mark.parametrize("rounded", [False, True])
def test_every_table_of_rounded_radii_says_so(runs, rounded):
    corrupted = [[Corrupted("m", "fog", 1, runs[0])]]
    tables = report_tables(
        a_report(runs, rounded=rounded, corrupted=corrupted), [*OF_RADII, "corruption-types"]
    )
    noted = [table.notes.count(ROUNDED) for name in OF_RADII for table in tables[name]]
    assert noted == [int(rounded)] * 5
    radii, accuracies = tables["corruption-types"]
    assert [ROUNDED in radii.notes, ROUNDED in accuracies.notes] == [
        rounded,
        False,
    ]  # no radius is in an accuracy


@pytest.mark.parametrize("form", [Table.to_text, Table.to_markdown, Table.to_latex])
def test_the_note_is_in_every_format_that_has_notes(runs, form):
    exact, rounded = (certificate_table(runs, [1.75], rounded) for rounded in (False, True))
    assert [table.rows[0][-1] for table in (exact, rounded)] == ["0.0", "50.0"]
    assert [ROUNDED in form(table) for table in (exact, rounded)] == [False, True]


@pytest.mark.parametrize("name", ["accuracy", "differences", "envelope", "trade-offs"])
def test_an_axis_of_rounded_radii_says_so(runs, name):
    for rounded in (False, True):
        for axes in draw(name, a_report(runs, rounded=rounded)).axes:
            shown = axes.get_xlabel() + axes.get_ylabel()
            assert not shown or ("3 digits" in shown or "3-digit" in shown) == rounded


@pytest.fixture(params=["l2", "linf"])
def store_and_log(write_store, write_log, request):
    """A store, and its own rows as a log of the field, whose l2 radii have 3 digits."""
    rows = [(i, 1, 1, radius) for i, radius in enumerate(np.linspace(0.1, 1.2, 40))]
    store = read_store(write_store(rows, inputs=40, every=1))
    log = read_log(
        write_log([(*row[:3], f"{r:.3}") for row, r in zip(rows, store.radius, strict=True)])
    )
    if request.param == "l2":
        return store, log
    return reanalyse(store.source, norm="linf", values=784), log_in_linf(log, 784)


@pytest.mark.parametrize("reference", [0, 1])
def test_a_store_and_its_own_rows_as_a_log_do_not_differ(store_and_log, reference, tmp_path):
    store, log = store_and_log
    radii = sorted({*store.radius.tolist(), *log.radius.tolist(), 0.0, 0.5})
    assert (np.sort(store.radius) != np.sort(log.radius)).any()  # without rounding they do
    table = difference_table(store_and_log, reference, radii)
    assert {float(cell) for cell in table.rows[0][2:]} == {0.0}
    assert best(table) == set()
    assert ALL_ROUNDED in table.notes
    values = difference_values(store_and_log, reference, radii)
    assert values["rounded"]
    assert {each["difference"] for each in values["compared"][0]["accuracies"]} == {0.0}
    figure = difference_figure(store_and_log, reference)
    assert not lines(figure)[0].y.any()
    ((low, high),) = bands(figure)
    assert {*-low, *high} == {1 - 0.05 ** (1 / 40)}
    assert "rounded to 3 digits" in figure.axes[0].get_xlabel()
    write_report(store_and_log, tmp_path / "page.html")
    assert ALL_ROUNDED in (tmp_path / "page.html").read_text()


def test_radii_in_l_infinity_norm_are_those_of_rounded_l2_radii(make):
    """0.1236 / 28 becomes 0.124 / 28, whatever 3 digits of the quotient are."""
    c = make([0.1236, 1.7456], source=Path("/logs/mnist/noise_0.5.tsv"))
    table = certificate_table(
        [log_in_linf(c)], [0.124 / 28.001, 0.124 / 27.999, 1.75 / 28.001], rounded=True
    )
    assert table.rows[0][-3:] == ("100.0", "50.0", "50.0")
    at = [float(cell) / 100 for cell in table.rows[0][-3:]]
    assert (
        certified_accuracy_linf(
            c, [0.124 / 28.001, 0.124 / 27.999, 1.75 / 28.001], 784, rounded=True
        ).tolist()
        == at
    )
    (axes,) = draw("accuracy", a_report([log_in_linf(c)], rounded=True)).axes
    assert axes.get_xlabel() == "radius r (ℓ∞, ℓ₂ radii rounded to 3 digits)"


def test_differences_of_runs_of_one_kind_stay_as_they_are(store_and_log):
    for c in store_and_log:
        assert ALL_ROUNDED not in difference_table([c, c], 0, [0.5]).notes
        assert "rounded" not in difference_figure([c, c], 0).axes[0].get_xlabel()
