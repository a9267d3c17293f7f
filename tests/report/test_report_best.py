"""A run that answers one class is never the best: not in bold, not in the first sentence, in no envelope."""

import dataclasses

import numpy as np
import pytest

from smoothcert.report import (
    Corrupted,
    certificate_table,
    corruption_table,
    corruption_types_table,
    difference_table,
    envelope_curve,
    envelope_values,
    group_envelope_table,
    upper_envelope,
)
from smoothcert.report.views.envelope_figure import envelope_figure
from tests.report.cells import best, intervals
from tests.report.chromium import tab
from tests.report.drawn import labels
from tests.report.page import Page, report

RADII = [0.0, 0.5, 1.0, 3.0]


@pytest.fixture(scope="module")
def runs(make):
    """40 inputs of four classes: `good` knows 30 of them up to 0.5, `weak` 20; `one` answers 0 for all, up to 4."""
    label = np.arange(40) % 4

    def run(name, predict, radius):
        right = predict == label
        c = make(np.full(40, radius), name=name, label=label, predict=predict, correct=right)
        return dataclasses.replace(c, source=c.source / name)

    good = np.where(np.arange(40) < 30, label, (label + 1) % 4)
    weak = np.where(np.arange(40) < 20, label, (label + 1) % 4)
    return [run("gaussian", good, 0.5), run("macer", weak, 0.5), run("one", 0 * label, 4.0)]


def test_no_cell_of_it_is_bold(runs):
    table = certificate_table(runs, RADII)
    assert (table.rows[2][table.head.index("ACR")], best(table)) == (
        "1.000",
        {(0, 3), (0, 5), (0, 6)},
    )
    assert best(certificate_table(runs[1:], RADII)) == set()  # of a single one there is no best
    differences = difference_table(runs, 0, RADII)
    assert {row for row, _ in best(differences)} == {0}
    assert intervals(differences)[1, 6][0] > "+0"  # though its interval leaves 0 out


def test_it_is_in_no_envelope(runs):
    assert [(won.radius, won.run, won.accuracy) for won in upper_envelope(runs, RADII)] == [
        (0.0, 0, 0.75), (0.5, 0, 0.75), (1.0, 0, 0.0), (3.0, 0, 0.0),
    ]  # fmt: skip
    table = group_envelope_table(runs, RADII)
    assert table.rows[2] == ("one", "", "", "", "")
    assert {row for row, _ in best(table)} == {0}
    assert envelope_curve(runs[2:]) is None
    assert [entry["best"] == [] for entry in envelope_values(runs, RADII)] == [False, False, True]
    assert labels(envelope_figure(runs)) == ["gaussian", "macer"]


def test_a_group_of_partial_runs_is_not_the_best(runs):
    few = dataclasses.replace(runs[0], expected=90)
    third = dataclasses.replace(
        runs[1], name="smoothmix", source=runs[1].source.parent / "smoothmix"
    )
    assert {row for row, _ in best(group_envelope_table([few, runs[1], third], [0.0]))} == {1, 2}


def test_the_page_does_not_praise_it(runs, tmp_path):
    page = Page(report(tmp_path, runs, radii=RADII))
    lead = " ".join(page.text[: page.text.index("Results")])
    assert "Highest certified accuracy: 75.0\xa0% at r\xa0=\xa00.00 (gaussian)" in lead
    assert "one" not in lead.split("accuracy:")[1]
    assert page.data["contenders"] == [0, 1]
    alone = Page(report(tmp_path, runs[2:], radii=RADII))
    assert "%" not in " ".join(alone.text[: alone.text.index("Results")])


def test_no_distance_to_it_is_shown(browser, runs, tmp_path):
    at = Page(report(tmp_path, runs)).data["readings"]["accuracy"]["x"].index(0.5)
    with tab(browser) as page:
        page.goto((tmp_path / "out" / "report.html").as_uri())
        page.locator("#accuracy-slider").fill(str(at))
        assert page.locator("#accuracy-explorer td.value").all_inner_texts()[2] == "25.0\xa0%"
        assert page.locator("#accuracy-explorer td.gap").all_inner_texts() == [
            "best",
            "\u221225.0",
            "",
        ]


def test_no_mean_of_it_over_corruptions_is_bold(runs):
    entries = [
        Corrupted(c.name, kind, None, c, ("mnist-c",)) for c in runs for kind in ("fog", "shear")
    ]
    means = corruption_table(entries)
    assert max(means.rows, key=lambda row: float(row[1]))[0] == "one"
    for table, place in ((means, 0), (corruption_types_table(entries), 1)):
        named = [row[0] for row in table.rows] if place == 0 else table.head[1:]
        marked = {named[cell[place] - place] for cell in best(table)}
        assert marked == {"gaussian"}
