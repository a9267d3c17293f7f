"""What is printed of a guarantee is never more than was proved, and no share looks like all or none that is neither."""

import dataclasses
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.report import (
    average_certified_radius,
    certificate_table,
    confidence_table,
    read_store,
    report_values,
    seed_summary,
)
from smoothcert.report.views.accuracy import accuracy_figure
from smoothcert.report.views.confidence import confidence_figure
from smoothcert.report.views.radii import histogram_figure
from smoothcert.report.views.seeds import seed_table
from smoothcert.statistics.printed import in_percent
from tests.cli.commands import ends
from tests.report.attack_stores import ABOUT, RIGHT, WRONG, write_attacks
from tests.report.chromium import tab
from tests.report.page import Page, report


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_at_most_what_is_known_and_never_looks_like_all_or_none(share):
    exact = 100 * Fraction(*share)
    value = share[0] / share[1]
    down, nearest = (Fraction(in_percent(value, proved)) for proved in (True, False))
    assert exact - Fraction(1, 10) < down <= exact
    assert abs(nearest - exact) <= Fraction(1, 20) + Fraction(1, 10**9)
    assert (down in (0, 100)) == (nearest in (0, 100)) == (exact in (0, 100))


@pytest.mark.parametrize(
    ("share", "down", "nearest"),
    [
        (0.9996, "99.9", "99.96"),
        (0.0004, "0.04", "0.04"),
        (0.29, "29.0", "29.0"),  # 100 times the double is a little less
        (0.52559, "52.5", "52.6"),
        (1.0, "100.0", "100.0"),
        (0.0, "0.0", "0.0"),
        (1 / 300_000, "0.0003", "0.0003"),
        (None, "", ""),
        (float("nan"), "", ""),
    ],
)
def test_shares_as_they_are_printed(share, down, nearest):
    assert (in_percent(share, proved=True), in_percent(share)) == (down, nearest)


@pytest.fixture(scope="module")
def many(make):
    """10,000 inputs of a store: 9,996 are right up to about 0.6, of which 4 up to 2; 4 are abstentions."""
    radius = np.full(10_000, 0.6999)
    radius[:4], radius[-4:] = 2.0, 0.0
    label = np.arange(10_000) % 10
    predict = np.where(radius > 0, label, -1)
    about = {"label": label, "predict": predict, "correct": radius > 0, "sigma": 0.5}
    manifest = {"identity": {}, "inputs": 10_000, "environment": {}}
    return make(radius, p_lower=np.where(radius > 0, 0.995, 0.0), manifest=manifest, **about)


def test_no_format_shows_all_or_none_for_what_is_neither(many, tmp_path):
    table = certificate_table([many], [0.0, 0.5, 1.0])
    assert table.rows[0][3:] == ("0.700", "0.04", "99.9", "99.9", "0.04")
    for text in (
        table.to_text(terminal=False),
        table.to_markdown(),
        table.to_latex(),
        table.to_csv(),
    ):
        assert not re.search(r"\b(100\.0|0\.0)\b", text)
    assert confidence_table([many]).rows[0][2:] == ("99.9",) * 7 + ("0.0",)  # none has 0.999
    page = Page(report(tmp_path, [many], radii=[0.0, 0.5, 1.0]))
    assert "100.0" not in " ".join(page.text)
    curve = page.data["readings"]["accuracy"]
    assert [curve["values"][0][curve["x"].index(r)] for r in (0.0, 1.0)] == [99.9, 0.04]
    told = "99.9 % at radius 0, average certified radius 0.700"
    assert told in accuracy_figure([many]).get_label()
    assert "99.9 % have p of at least 0.99" in confidence_figure([many]).get_label()
    assert "99.9 % of the inputs correct, 0.0 % wrong" in histogram_figure([many]).get_label()
    assert report_values([many], [0.0])["rows"][0]["clean_accuracy"] == 0.9996  # all its digits


def test_the_script_of_the_page_shows_what_the_table_shows(browser, many, tmp_path):
    at = Page(report(tmp_path, [many])).data["readings"]["accuracy"]["x"].index(1.0)
    with tab(browser) as page:
        page.goto((tmp_path / "out" / "report.html").as_uri())
        page.locator("#accuracy-slider").fill(str(at))
        assert page.locator("#accuracy-explorer td.value").all_inner_texts() == ["0.04\xa0%"]


def test_a_log_alone_and_rounded_radii_are_printed_as_papers_do(many):
    log = dataclasses.replace(many, manifest=None, p_lower=None, radius=many.radius.round(3))
    assert average_certified_radius(many) == pytest.approx(0.70014, abs=1e-5)
    radius = np.where(many.radius > 0, 0.52559, 0.0)
    (stored, _), (other, _) = ((dataclasses.replace(c, radius=radius), c) for c in (many, log))
    shown = [row[3] for row in certificate_table([stored, other], [0.5]).rows]
    assert shown == ["0.525", "0.525"]  # beside each other they are rounded alike
    assert [certificate_table([c], [0.5]).rows[0][3] for c in (stored, other)] == ["0.525", "0.525"]
    assert certificate_table([other], [0.5]).rows[0][5] == "99.96"
    assert certificate_table([stored], [0.5], rounded=True).rows[0][5] == "99.96"


def test_means_over_seeds_are_no_guarantee_and_rounded_to_the_nearest(many):
    config = {"method": "gaussian"}
    runs = [dataclasses.replace(many, config={**config, "seed": seed}) for seed in (0, 1, 2)]
    runs[0] = dataclasses.replace(runs[0], radius=np.where(many.correct, 2.0, 0.0))
    (row,) = seed_table(runs, [1.0]).rows
    assert row[2].split()[0] == f"{seed_summary(runs).acr.mean:.4f}"


def test_radii_of_a_store_are_rounded_down(write_store, tmp_path):
    c = read_store(write_store([(i, 1, 1, 0.7) for i in range(3)], inputs=3))
    acr = average_certified_radius(c)
    shown = certificate_table([c]).rows[0][3]
    assert float(shown) <= acr < float(shown) + 0.001
    assert f"{acr:.3f}" > shown  # the nearest would claim more
    page = report(tmp_path, [c])
    assert f"<dd>{shown}</dd>" in page  # the median radius


def test_what_an_attack_leaves_is_not_all_or_none(write_store, tmp_path, capsys):
    rows = [(i, 1, 1, 1.0) for i in range(2500)]
    write_store(rows, inputs=2500, every=1, **ABOUT)
    answers = {(i, 0.5): WRONG if i == 0 else RIGHT for i in range(2500)}
    write_attacks(tmp_path / "run" / "attack" / "pgd", answers)
    _, said = ends(capsys, "report", tmp_path / "run", "--tables", "attacks")
    assert [line.split()[-1] for line in said.out.splitlines()[3:5]] == ["100.0", "99.96"]
