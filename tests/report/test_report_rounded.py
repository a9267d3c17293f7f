"""Radii of 3 digits, as published logs have them, may be above the proved ones: whatever shows them says so."""

import pytest

from smoothcert.report import Material, certificate_table, report_tables
from smoothcert.report.charts.drawings import Scene, draw
from smoothcert.report.tables.corruptions import Corrupted
from smoothcert.report.tables.formats import Table
from smoothcert.report.tables.notes import ROUNDED

OF_RADII = ("certified", "differences", "envelope", "abstentions", "corruptions")


@pytest.fixture
def runs(make):
    return [make([0.1234, 1.7456], name=name, sigma=0.5) for name in ("gaussian", "smoothmix")]


@pytest.mark.parametrize("rounded", [False, True])
def test_every_table_of_rounded_radii_says_so(runs, rounded):
    corrupted = [[Corrupted("m", "fog", 1, runs[0])]]
    tables = report_tables(Material(runs, rounded=rounded, corrupted=corrupted), [*OF_RADII, "corruption-types"])
    assert [tables[name][0].notes.count(ROUNDED) for name in OF_RADII] == [int(rounded)] * len(OF_RADII)
    radii, accuracies = tables["corruption-types"]
    assert [ROUNDED in radii.notes, ROUNDED in accuracies.notes] == [rounded, False]  # no radius is in an accuracy


@pytest.mark.parametrize("form", [Table.to_text, Table.to_markdown, Table.to_latex])
def test_the_note_is_in_every_format_that_has_notes(runs, form):
    exact, rounded = (certificate_table(runs, [1.75], rounded) for rounded in (False, True))
    assert [table.rows[0][-1] for table in (exact, rounded)] == ["0.0", "50.0"]
    assert [ROUNDED in form(table) for table in (exact, rounded)] == [False, True]


@pytest.mark.parametrize("name", ["accuracy", "differences", "envelope", "trade-offs"])
def test_an_axis_of_rounded_radii_says_so(runs, name):
    for rounded in (False, True):
        for chart in draw(name, Scene(runs, rounded)):
            assert any("3 digits" in label or "3-digit" in label for label in chart.labels) == rounded
