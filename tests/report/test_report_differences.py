"""Runs beside a reference: on which inputs, by which intervals, as table, drawing and values."""

import re

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report import (
    certificate_table,
    difference_table,
    difference_values,
)
from smoothcert.report.measures.bootstrap import paired_bootstrap, paired_curve
from smoothcert.report.measures.pairing import paired, reference_place
from smoothcert.report.views.differences import difference_figure
from tests.report.cells import best, intervals
from tests.report.drawn import bands, lines
from tests.report.page import a_report, report_tables


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def runs(make):
    """Three runs on 80 inputs, `late` on the last 60 of them and 20 others."""
    wide, narrow = rng(1).exponential(0.6, 80), rng(2).exponential(0.5, 80)
    late = make(wide + 0.25, name="late", idx=np.arange(20, 100))
    return [make(wide, rng(3).random(80) < 0.8, name="wide"), make(narrow, name="narrow"), late]


@pytest.mark.parametrize("rounded", [False, True])
def test_a_curve_has_the_intervals_of_the_bootstrap(runs, rounded):
    """Two ways to count, the same resamples: equal at every radius, ties included."""
    first, second = runs[:2]
    radii = np.sort(np.concatenate([[0.0, 0.5], first.radius[:5], second.radius[:5], [9.0]]))
    value, low, high = paired_curve(first, second, rng(), radii, resamples=50, rounded=rounded)
    found = paired_bootstrap(
        first, second, rng(), radii=radii.tolist(), resamples=50, rounded=rounded
    )
    assert value == pytest.approx([each.value for each in found.accuracy], abs=1e-12)
    assert low == pytest.approx([each.low for each in found.accuracy], abs=1e-12)
    assert high == pytest.approx([each.high for each in found.accuracy], abs=1e-12)


def test_runs_are_compared_on_the_inputs_that_both_have(runs):
    pairs, left_out = paired(runs, 0)
    assert left_out == {}
    assert [(pair.place, pair.run.rows) for pair in pairs] == [(1, 80), (2, 60)]
    assert pairs[1].run.idx.tolist() == pairs[1].reference.idx.tolist() == list(range(20, 80))
    table = difference_table(runs, 0, [0.5])
    assert [row[:2] for row in table.rows] == [("narrow", "80"), ("late", "60")]
    own = (runs[2].radius[:60] >= 0.5).mean() - (runs[0].correct & (runs[0].radius >= 0.5))[
        20:
    ].mean()
    assert float(table.rows[1][3]) == pytest.approx(100 * own, abs=0.05)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"idx": np.arange(7, 9)}, "no input in common"),
        ({"label": np.array([0, 1])}, "other labels at the same indices"),
        ({"label": np.array([-1, -1])}, "no labels"),
        ({"norm": "l1"}, "radii in l1 norm, not l2"),
        ({"manifest": {"identity": {"dataset": "mnist"}}}, "another data set, mnist"),
        ({"manifest": {"identity": {"split": "train"}}}, "another split, train"),
    ],
)
def test_what_cannot_be_compared_is_named(make, changes, reason):
    known = {"manifest": {"identity": {"dataset": "fmnist", "split": "test"}}}
    base, like, other = (
        make([0.5, 0.6], name="base", **known),
        make([0.5, 0.6]),
        make([0.5, 0.6], name="b", **changes),
    )
    assert paired([base, like, other], 0)[1] == {2: reason}
    assert f"b is left out: {reason}" in difference_table([base, like, other], 0, [0.5]).notes
    assert difference_table([base, other], 0, [0.5]) is None
    with pytest.raises(ConfigError, match=re.escape(f"(b: {reason})")):
        report_tables(a_report([base, other]), ["differences"])


def test_a_table_says_which_differences_are_sure(make):
    a, b, c = (
        make([0.5] * 9, name="a"),
        make([0.7] * 9, name="b"),
        make([0.5] * 8 + [0.7], name="c"),
    )
    table = difference_table([a, b, c], 1, [0.6])
    assert table.columns == ("minus b", "inputs", "ACR", "r=0.60")
    assert table.rows == (("a", "9", "-0.200", "-100.0"), ("c", "9", "-0.178", "-88.9"))
    assert intervals(table)[1, 2] == ("-0.200", "-0.133")  # of 9 drawn inputs up to 3 are the last
    assert intervals(table)[0, 3] == ("-100.0", "-43.4")  # -1 + 2 (1 - 0.05^(1/9))
    assert best(table) == {(0, 3), (1, 2), (1, 3)}
    assert "-0.178 [-0.200, -0.133]" in table.to_text()
    head, first, _ = table.to_csv().splitlines()
    assert head == "minus b,inputs,ACR,ACR lower,ACR upper,r=0.60,r=0.60 lower,r=0.60 upper"
    assert first == "a,9,-0.200,,,-100.0,-100.0,-43.4"
    assert "the first 1 of 2 runs" in difference_table([a, b, c], 1, [0.6], most=1).notes


@pytest.mark.parametrize("lower", [1e-6, -1e-6])
def test_an_end_that_rounds_to_0_keeps_its_sign(make, lower):
    """Each input has a radius that is smaller by nearly the same: the interval is this one number, as printed."""
    table = difference_table(
        [make([0.5123] * 9), make(0.5123 - lower * np.arange(1, 10), name="b")], 0, [0.0]
    )
    assert intervals(table)[0, 2] == (("-0.000",) * 2 if lower > 0 else ("+0.000",) * 2)
    assert (0, 2) in best(table)


def test_where_the_bootstrap_cannot_tell_the_acr_has_no_interval(make):
    radii = {"a": [0.5] * 6, "b": [0.5] * 6, "c": [0.5] * 5 + [0.6], "d": [0.6] * 6}
    table = difference_table([make(values, name=name) for name, values in radii.items()], 0, [0.5])
    assert [row[2] for row in table.rows] == ["+0.000", "+0.017", "+0.100"]
    assert sorted(intervals(table)) == [(0, 3), (1, 2), (1, 3), (2, 3)]
    told = (
        "the difference of the ACR has no interval: "
        "the bootstrap takes 6 inputs or more whose values are not all equal"
    )
    assert table.notes == (f"b, d: {told}",)
    assert "b,6,+0.000,,,+0.0,-39.3,+39.3" in table.to_csv().splitlines()  # 1 - 0.05^(1/6)
    few = difference_table([make([0.5] * 5), make([0.5] * 4 + [0.6], name="c")], 0, [0.5])
    assert (sorted(intervals(few)), best(few), few.notes) == ([(0, 3)], set(), (f"c: {told}",))
    assert [
        entry["acr_interval"] for entry in difference_values([make([0.5])] * 2, 0, [])["compared"]
    ] == [pytest.approx([np.nan, np.nan], nan_ok=True)]


def test_unequal_budgets_are_told(make):
    table = difference_table([make([0.5] * 6, n=100), make([0.6] * 5 + [0.7], n=1000)], 0, [0.5])
    assert table.notes == (
        "the runs differ in samples per input (n): 100, 1000; radii depend on it",
    )


def test_the_reference_is_the_first_or_the_one_named(make):
    runs = [
        make([0.5], name="a", sigma=0.25),
        make([0.6], name="a", sigma=0.5),
        make([0.7], name="b", sigma=0.5),
    ]
    assert reference_place(runs, None) == 0
    assert reference_place(runs, "b") == reference_place(runs, "b (σ=0.5)") == 2
    assert reference_place(runs, "a (σ=0.5)") == 1
    assert reference_place([make([0.5], [0], label=np.array([-1])), *runs], None) == 1
    with pytest.raises(
        ConfigError, match=r"one of the runs a \(σ=0.25\), .*, and 2 runs have the name 'a'"
    ):
        reference_place(runs, "a")
    with pytest.raises(ConfigError, match="no run has the name 'c'"):
        reference_place(runs, "c")
    (table,) = report_tables(a_report(runs, reference="b"), ["differences"])["differences"]
    assert table.head[0] == "minus b (σ=0.5)"


def test_the_drawing_has_a_line_in_its_band_for_each_run(runs):
    figure = difference_figure(runs, 1)
    bottom, top = figure.axes[0].get_ylim()
    assert [line.run for line in lines(figure)] == [0, 2]
    for line, (low, high) in zip(lines(figure), bands(figure), strict=True):
        assert (low <= line.y).all()
        assert (line.y <= high).all()
        assert bottom < low.min()
        assert high.max() < top
        assert line.y[-1] == 0  # no run reaches the end of the axis
    assert figure.axes[0].get_ylabel() == "percentage points above narrow"
    assert [[*line.get_ydata()] for line in figure.axes[0].get_lines()][-1] == [0, 0]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("narrow", ["percentage points above narrow"]),
        ("cat-rs, long", ["percentage points above", "cat-rs, long"]),
        (
            "smoothadv-consistency (partial)",
            ["percentage points above", "smoothadv-", "consistency", "(partial)"],
        ),
        ("logs/data/cifar10/cat-rs", ["percentage points above", "logs/data/cifar10/", "cat-rs"]),
        ("W" * 90, ["percentage points above", "W" * 20, "W" * 19 + "…"]),
    ],
)
def test_a_long_name_of_the_reference_stays_in_the_picture(make, name, shown):
    figure = difference_figure(
        [make([0.5, 1.0], name=name), make([0.6, 0.7], name="cohen/num_2/lbd_20.0/" * 6)], 0
    )
    assert figure.axes[0].get_ylabel().split("\n") == shown
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for box in (axes.yaxis.label.get_window_extent(), figure.legends[0].get_window_extent()):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert axes.get_window_extent().width > 0.7 * figure.bbox.width


def test_the_last_steps_are_vertical(make):
    """All inputs of both runs have one radius each, which lies between the points of the grid."""
    runs = [make([radius] * 4, name=f"run{radius}") for radius in (0.70711, 0.33333)]
    (line,) = lines(difference_figure(runs, 0))
    steps = np.flatnonzero(np.diff(line.y))
    assert line.x[steps].tolist() == [0.33333, 0.70711]
    assert line.y[steps + 1].tolist() == [-1.0, 0.0]
    assert np.diff(line.x)[steps].max() < 1e-12


def test_values_are_those_of_the_table(runs):
    told = difference_values(runs, 1, [0.0, 0.5])
    table = difference_table(runs, 1, [0.0, 0.5])
    assert told["reference"] == "narrow"
    assert told["left_out"] == []
    for i, entry in enumerate(told["compared"]):
        name, inputs, acr, *cells = table.rows[i]
        assert (entry["name"], str(entry["inputs"]), f"{entry['acr']:+.3f}") == (name, inputs, acr)
        assert [f"{end:+.3f}" for end in entry["acr_interval"]] == list(intervals(table)[i, 2])
        assert [f"{100 * each['difference']:+.1f}" for each in entry["accuracies"]] == cells
        assert [f"{100 * end:+.1f}" for end in entry["accuracies"][1]["interval"]] == list(
            intervals(table)[i, 4]
        )


def test_another_copy_of_the_data_is_told(make):
    """Same name and labels, other pixels: a blurred copy, for example."""

    def store(data):
        about = {"dataset": "cifar10", "split": "test", "data": data}
        return make([0.5, 1.0], name=data, manifest={"identity": about, "inputs": 2})

    told = "2 different copies of cifar10 (test)"
    assert any(told in note for note in difference_table([store("a"), store("b")], 0, [0.0]).notes)
    assert any(told in note for note in certificate_table([store("a"), store("b")]).notes)
    assert not any(
        "copies" in note for note in difference_table([store("a"), store("a")], 0, [0.0]).notes
    )


def test_mean_radii_in_l_infinity_norm_have_their_digits_in_intervals_too(make):
    runs = [make([k / 255, 2 * k / 255] * 3, norm="linf", name=str(k)) for k in (1, 2)]
    table = difference_table(runs, 0, [0.0])
    assert (table.rows[0][2], intervals(table)[0, 2]) == ("+0.00588", ("+0.00458", "+0.00719"))
    table = certificate_table(runs, [0.0], intervals=True)
    assert intervals(table)[0, table.head.index("ACR")] == ("0.00458", "0.00719")
