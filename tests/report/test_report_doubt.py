"""Certificates by float noise are not formally sound, and every output says so; no printed bound exceeds the proved."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.report import (
    abstention_table,
    certificate_table,
    group_envelope_table,
    save,
)
from smoothcert.report.measures.attack_curves import AttackCurve, Family
from smoothcert.report.measures.corrupted import Corrupted
from smoothcert.report.page.gallery import build_gallery
from smoothcert.report.page.sections import gallery_data
from smoothcert.report.table import Table
from smoothcert.report.views.accuracy import accuracy_figure
from smoothcert.report.views.attacks import attack_figure
from smoothcert.report.views.classes import class_table
from smoothcert.report.views.corruptions import corruption_table, corruption_types_table
from smoothcert.report.views.differences import difference_table
from smoothcert.report.views.envelope import envelope_table
from smoothcert.statistics.printed import at_least, at_most
from tests.report.drawn import labels, words
from tests.report.page import a_report, draw, write_report

WORDS = "float noise: not formally sound"


@pytest.fixture
def runs(make):
    return [make([0.5, 0.6], name="a", noise="float"), make([0.4, 0.7], name="b", noise="exact")]


@pytest.mark.parametrize("form", [Table.to_text, Table.to_markdown, Table.to_latex, Table.to_csv])
def test_tables_tell_which_rows_are_not_sound(runs, form):
    lines = [
        line for line in form(certificate_table(runs)).splitlines() if not line.endswith("\\par")
    ]  # no note
    (row,) = [line for line in lines if re.match(r"(\| )?a\b", line) and "ACR" not in line]
    assert WORDS in row
    assert not any(WORDS in line for line in lines if re.match(r"(\| )?b\b", line))
    assert WORDS not in form(certificate_table(runs[1:]))


@pytest.mark.parametrize(
    "table",
    [
        lambda runs: envelope_table(runs, [0.0, 0.5]),
        lambda runs: group_envelope_table(runs, [0.5], by="all"),
        lambda runs: abstention_table(runs, [0.5], by="all"),
        lambda runs: difference_table(runs, 0, [0.5]),
        lambda runs: class_table(runs),
        lambda runs: corruption_table([Corrupted("m", "fog", 1, runs[0])]),
        lambda runs: corruption_types_table([Corrupted("m", "fog", 1, runs[0])], 1),
    ],
)
def test_what_follows_from_a_table_tells_it_too(runs, table):
    assert WORDS in table(runs).to_csv()
    tabular = table(runs).to_latex().partition(r"\end{tabular}")[0]
    assert WORDS in re.sub("(?m)^%.*", "", tabular)


@pytest.mark.parametrize(
    "name", ["accuracy", "confidence", "differences", "envelope", "trade-offs"]
)
def test_drawings_tell_it_in_their_legends_and_descriptions(make, name):
    kinds = {"mine/a": "float", "theirs/b": "exact"}
    runs = [
        make([0.5, 0.6], name=run, noise=noise, sigma=0.5, n=1000, alpha=0.001)
        for run, noise in kinds.items()
    ]
    figure = draw(name, a_report(runs, reference="theirs/b"))
    assert any("mine" in text and WORDS in text for text in words(figure))
    assert not any("theirs" in text and WORDS in text for text in words(figure))
    assert WORDS in figure.get_label()


@pytest.mark.parametrize(
    "name", ["accuracy", "confidence", "differences", "envelope", "trade-offs"]
)
def test_drawings_tell_of_partial_runs_too(make, name):
    sizes = {"mine/a": 9, "theirs/b": None}
    runs = [
        make([0.5, 0.6], name=run, expected=n, sigma=0.5, n=1000, alpha=0.001)
        for run, n in sizes.items()
    ]
    figure = draw(name, a_report(runs, reference="theirs/b"))
    assert any("mine" in text and "(partial" in text for text in labels(figure))
    assert not any("theirs" in text and "(partial" in text for text in labels(figure))
    assert "(partial" in figure.get_label()
    if name == "accuracy":
        assert labels(figure)[0] == "mine/a (partial, 2 of 9 inputs)"


def test_trade_offs_tell_of_collapsed_networks(make):
    label = np.arange(24) % 3
    config = {"method": {"name": "consistency"}, "dataset": "mnist"}

    def run(lam, predict):
        settings = config | {"method": config["method"] | {"lam": lam}}
        about = {
            "label": label,
            "predict": predict,
            "config": settings,
            "name": f"run{lam}",
            "sigma": 0.5,
        }
        return make([0.5] * 24, predict == label, **about)

    good, collapsed = run(1.0, label), run(9.0, np.zeros(24, np.int64))
    assert "COLLAPSED" in " ".join(certificate_table([good, collapsed]).notes)
    for runs, shown in (
        ([good, collapsed], "consistency by lam (COLLAPSED at 9)"),
        ([collapsed], "run9.0 (COLLAPSED)"),
        ([good], "run1.0"),
    ):
        assert labels(draw("trade-offs", a_report(runs))) == [shown]


def test_figures_and_pages_tell_it(runs, tmp_path):
    assert labels(accuracy_figure(runs))[0] == f"a ({WORDS})"
    pgd = AttackCurve("pgd", np.array([0.5]), np.array([0.5]), (0.5,))
    attacked = attack_figure([Family("a", (runs[0],), (pgd,))])
    assert f"of a ({WORDS})" in attacked.get_label()
    assert labels(attacked)[0].startswith(f"a ({WORDS}): certified, ")
    write_report(runs, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count(f"a ({WORDS})") >= 5  # legend, notes, comparison, histogram, provenance
    assert f"b ({WORDS})" not in page
    pictures = []
    for noise in ("float", "exact"):
        save(accuracy_figure([dataclasses.replace(runs[0], noise=noise)]), tmp_path / "curves.png")
        pictures.append((tmp_path / "curves.png").read_bytes())
    assert pictures[0] != pictures[1]


@given(st.floats(0, 1e6, allow_subnormal=False), st.integers(1, 6))
def test_a_printed_bound_is_on_the_cautious_side_and_close(bound, digits):
    for text, low, high in ((at_least(bound, digits), 0, 1), (at_most(bound, digits), -1, 0)):
        assert len(text.partition(".")[2]) == digits
        assert low <= (bound - float(text)) * 10**digits * (1 - 1e-5) <= high
    assert float(at_least(bound, digits)) <= bound <= float(at_most(bound, digits))


@pytest.mark.parametrize(
    ("bound", "digits", "text"),
    [
        (0.9996547, 6, "0.999654"),
        (0.3, 3, "0.300"),
        (1.9996, 3, "1.999"),
        (1e-7, 3, "0.000"),
        (2.0, 2, "2.00"),
    ],
)
def test_lower_bounds_are_cut(bound, digits, text):
    assert at_least(bound, digits) == text


def test_cards_show_no_radius_above_the_stored_one(make):
    radii = np.random.default_rng(0).random(60) * 2

    class Images:
        def image(self, i):
            return np.full((1, 2, 2), i % 256, np.uint8)

    gallery = build_gallery([make(radii)], {"run": Images()})
    cards = gallery_data(gallery)["cards"]
    assert len(cards) == 48
    for _, _, index, _, _, shown, *_ in cards:
        assert float(shown) <= radii[index] < float(shown) + 0.001


@pytest.mark.parametrize(
    "name", ["=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd|x", "@SUM(A1)", "\tx", "\r=1", "-1+A2"]
)
def test_no_cell_of_a_csv_file_is_a_formula(make, name):
    table = Table((name, "x"), ((name, "0.5"),))
    assert not {line.lstrip('"')[0] for line in re.split("\n", table.to_csv())[:2]} & set(
        "=+-@\t\r"
    )


@pytest.mark.parametrize("cell", ["-1", "+0.012", "-0.5", "-", "-1.2 s.d.", "0.5", "run=1"])
def test_numbers_of_a_csv_file_stay_numbers(cell):
    assert (
        Table(("a", "b"), (("run", cell),)).to_csv().splitlines()[1].split(",", 1)[1].strip('"')
        == cell
    )
