"""Stores of `certify --radius`: they speak at the radii they tested, and nowhere else."""

import math
import re

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.published.catalogue import load_table
from smoothcert.report import (
    abstention_rate,
    average_certified_radius,
    certificate_table,
    certified_accuracy,
    clean_accuracy,
    curve_svg,
    median_radius,
    paired_bootstrap,
    save_figure,
    trade_offs,
    upper_envelope,
    write_report,
)
from smoothcert.report.charts.attacks import attack_chart
from smoothcert.report.charts.chart import chart_svg
from smoothcert.report.charts.curves import confidence_chart
from smoothcert.report.charts.differences import difference_chart
from smoothcert.report.measures.analysis import default_radii
from smoothcert.report.measures.attack_curves import AttackCurve, Family
from smoothcert.report.measures.confidence import has_confidence, saturation
from smoothcert.report.measures.published_comparison import differences_in_making
from smoothcert.report.page.sections import comparison, histograms, readings
from smoothcert.report.tables.differences import difference_table
from smoothcert.report.tables.notes import comparison_notes
from smoothcert.report.tables.tables import class_table


@pytest.fixture
def listed(make):
    """Four inputs certified at 0.5, 1, 1 and not at all, by a test of `radii`."""

    def build(radii=(0.5, 1.0), radius=(0.5, 1.0, 1.0, 0.0), name="listed", **changes):
        manifest = {"identity": {"procedure": "radius", "radii": list(radii)}}
        settings = {"sigma": 0.5, "n": 1000, "alpha": 0.001, "p_lower": np.full(4, 0.9)}
        return make(radius, [1, 1, 1, 0], name=name, manifest=manifest, **(settings | changes))

    return build


@pytest.fixture
def usual(make):
    settings = {"sigma": 0.5, "n": 1000, "alpha": 0.001, "manifest": {"identity": {}}}
    return make([0.6, 1.1, 1.2, 0.0], [1, 1, 1, 0], name="usual", **settings)


def test_only_listed_radii_have_an_accuracy(listed):
    shares = certified_accuracy(listed(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
    np.testing.assert_array_equal(shares, [np.nan, np.nan, 0.75, np.nan, 0.5, np.nan])


def test_what_follows_from_all_radii_is_not_known(listed):
    c = listed()
    values = [average_certified_radius(c), clean_accuracy(c), abstention_rate(c), median_radius(c)]
    assert all(map(math.isnan, values))
    assert not has_confidence(c)
    assert saturation(c) is None
    with_zero = listed(radii=(0, 0.5, 1))
    assert (clean_accuracy(with_zero), abstention_rate(with_zero)) == (0.75, 0.25)


def test_a_damaged_list_speaks_nowhere(make):
    c = make([0.5], manifest={"identity": {"procedure": "radius"}})
    assert np.isnan(certified_accuracy(c, [0.0, 0.5])).all()
    assert certificate_table([c]).rows[0][3:] == ("", "", "")


def test_listed_radii_are_not_rounded(listed):
    c = listed(radii=(0.5, 1.125), radius=(0.5, 1.125, 1.125, 0.0))
    assert certified_accuracy(c, 1.125, rounded=True) == 0.5


def test_the_table_leaves_blank_what_is_not_known(listed, usual):
    table = certificate_table([listed(), usual], radii=[0.0, 0.5, 0.75])
    assert table.rows[0] == ("listed", "0.5", "4", "", "", "", "75.0", "")
    assert table.rows[1] == ("usual", "0.5", "4", "0.725", "25.0", "75.0", "75.0", "50.0")
    assert table.best == {(0, 6), (1, 6)}  # a column with one value has no best one
    assert table.notes == (
        "listed: only the radii 0.5, 1 were tested: nothing is known at others, and no ACR",
        "n up to 1,000, alpha = 0.001",
    )
    assert "listed,0.5,4,,,,75.0," in table.to_csv().splitlines()


def test_the_radii_of_a_table_are_those_tested(listed, usual):
    assert default_radii([listed(), listed(radii=(0.3,))]) == [0.3, 0.5, 1.0]
    assert default_radii([listed(radii=(0.3, 2)), usual]) == [0.0, 0.25, 0.3, 0.5, 0.75, 1.0, 2.0]


def test_differences_are_known_at_common_radii_only(listed, usual):
    found = paired_bootstrap(listed(), usual, np.random.default_rng(0), radii=[0.5, 0.75, 1.0])
    assert math.isnan(found.acr.value)
    assert not found.acr.excludes_zero
    assert [found.accuracy[i].value for i in (0, 2)] == [0.0, 0.0]
    assert math.isnan(found.accuracy[1].value)
    table = difference_table([listed(), usual], 1, [0.5, 0.75])
    assert table.rows == (("listed", "4", "", "+0.0", ""),)
    assert table.intervals == {(0, 3): ("-52.7", "+52.7")}  # 1 - 0.05^(1/4)
    (line,) = difference_chart([listed(radii=(0.5, 1, 2)), usual], 1).lines
    assert line.dots
    assert line.x.tolist() == [0.5, 1, 2]  # what both know
    apart = [listed(), listed(radii=(0.75,), name="other")]
    assert difference_table(apart, 0, [0.5, 0.75]) is None
    with pytest.raises(ConfigError, match="other: no radius that both have tested"):
        difference_chart(apart, 0)


def test_the_envelope_asks_those_who_know(listed, usual):
    found = upper_envelope([listed(), usual], [0.0, 0.5, 1.0])
    assert [w.tied for w in found] == [(1,), (1, 0), (1, 0)]
    assert upper_envelope([listed()], [0.25]) == []


def test_no_averages_from_a_list(listed, usual):
    assert class_table([listed()]) is None
    assert [row[0] for row in class_table([listed(), usual]).rows] == ["usual"]
    assert [chart["label"] for chart in histograms([listed(), usual])] == ["usual"]
    assert confidence_chart([listed()]) is None
    config = {"method": {"name": "gaussian"}}
    assert trade_offs([listed(config=config | {"sigma": sigma}) for sigma in (0.25, 0.5)]) == []
    row = load_table("smoothmix-supplement/table-5").rows[9]
    assert any("radii = [" in told for told in differences_in_making(listed(), row))


def test_charts_show_points_and_no_line(listed, usual, tmp_path):
    svg = curve_svg([listed(radii=(0.5, 1, 2))])
    assert "<polyline" not in svg
    places = np.array(re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg), float)[:3]
    assert np.diff(places[:, 0]) == pytest.approx([156.8, 2 * 156.8], abs=0.2)  # radii 0.5, 1 and 2
    assert np.diff(places[:, 1]) == pytest.approx([98.1, 2 * 98.1], abs=0.2)  # 75, 50 and 0 %
    assert "listed: 75.0 % at radius 0.5, 50.0 % at radius 1, 0.0 % at radius 2." in svg
    pgd = AttackCurve("pgd", np.array([0.5]), np.array([0.5]), (0.5,))
    attacked = attack_chart([Family("listed", (listed(),), (pgd,))])
    assert "nan" not in chart_svg(attacked)
    assert attacked.lines[0].dots
    assert attacked.lines[0].y.tolist() == [0.75, 0.5]
    save_figure([listed(), usual], tmp_path / "points.png")
    assert (tmp_path / "points.png").stat().st_size > 1000


def test_readings_say_nothing_between_the_radii(listed, usual):
    found = readings([listed(), usual], rounded=False)
    at = found["curves"]["shown"].index("0.50")
    assert [row[at] for row in found["curves"]["values"]] == [75.0, 75.0]
    assert [row[at + 1] for row in found["curves"]["values"]] == [None, 75.0]
    assert found["confidence"]["runs"] == [1]


def test_a_page_of_such_runs_alone(listed, usual, tmp_path):
    write_report([listed(), listed(name="again")], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "Differences to listed" in text
    for name in ("listed", "again"):
        assert f"{name}: 75.0 % at radius 0.5" in text
    assert not [
        word
        for word in ('id="classes"', 'id="radii"', "confidence of", ">nan", "NaN")
        if word in text
    ]
    write_report([listed(), usual], tmp_path / "page.html")
    assert (
        "<strong>75.0&nbsp;%</strong> at r&nbsp;=&nbsp;0.00 (usual)"
        in (tmp_path / "page.html").read_text()
    )
    assert comparison([listed(), usual], [0.5], False, 1)["differences"].head[0] == "minus usual"


def test_round_radii_of_a_store_are_not_taken_for_a_log(listed, make):
    exact = make([0.123456, 1.1, 1.2, 0.0], [1, 1, 1, 0], sigma=0.5, manifest={"identity": {}})
    log = make([0.123, 1.1, 1.2, 0.0], [1, 1, 1, 0], sigma=0.5)
    assert not any("rounded" in note for note in comparison_notes([listed(), exact]))
    assert any("rounded" in note for note in comparison_notes([log, exact]))
