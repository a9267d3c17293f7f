"""The SVG charts: well formed, true to the numbers, small."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.errors import ConfigError
from smoothcert.report import certified_accuracy, curve_svg
from smoothcert.report.charts.chart import thin
from smoothcert.report.charts.curves import axis_top, step_corners
from smoothcert.report.charts.line_styles import COLOURS, DASHES, LineStyle
from smoothcert.report.charts.svg import stroke, ticks
from smoothcert.report.charts.training import training_svg

SVG = "{http://www.w3.org/2000/svg}"


def polylines(text):
    return [
        np.array([point.split(",") for point in line.get("points").split()], float)
        for line in ET.fromstring(text).iter(f"{SVG}polyline")
    ]


def test_corners_of_a_known_curve(make):
    x, y = step_corners(make([0.5, 0.5, 1.0, 2.0], correct=[1, 1, 1, 0]))
    assert x.tolist() == [0, 0, 0.5, 0.5, 1.0, 1.0]
    assert y.tolist() == [0.75, 0.75, 0.75, 0.25, 0.25, 0.0]


def test_curve_in_pixels(make):
    root = ET.fromstring(curve_svg([make([0.5, 1.0])]))
    left, right, top, bottom, x_top, y_top = (
        float(root.get(f"data-{key}"))
        for key in ("left", "right", "top", "bottom", "x-top", "y-top")
    )
    assert (x_top, y_top) == (1.02, 1.0)
    (line,) = polylines(curve_svg([make([0.5, 1.0])]))
    radius = (line[:, 0] - left) / (right - left) * x_top
    share = (bottom - line[:, 1]) / (bottom - top) * y_top
    np.testing.assert_allclose(radius, [0, 0, 0.5, 0.5, 1, 1], atol=1e-3)
    np.testing.assert_allclose(share, [1, 1, 1, 0.5, 0.5, 0], atol=1e-3)


@given(seed=st.integers(0, 2**32 - 1), saturated=st.floats(0, 0.6))
def test_thinned_curve_cannot_be_told_from_the_whole(make, seed, saturated):
    rng = np.random.default_rng(seed)
    radius = np.minimum(
        rng.exponential(1.0, 3000), np.quantile(rng.exponential(1.0, 3000), 1 - saturated)
    )
    c = make(radius, correct=rng.random(3000) < 0.9)
    top = axis_top([c])
    x, y = thin(*step_corners(c), top=top, points=400)
    assert 2 <= len(x) <= 400
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) <= 0).all()
    assert (x[0], y[0], y[-1]) == (0, c.correct.mean(), 0)
    # at each kept corner the curve is the true one, and no two neighbours are far apart unless by a true jump
    above = certified_accuracy(c, x)
    below = certified_accuracy(c, np.nextafter(x, np.inf))
    assert ((y <= above + 1e-12) & (y >= below - 1e-12)).all()
    grid = np.linspace(0, x[-1], 2000)
    drawn = np.interp(grid, x, y)
    near = (
        certified_accuracy(c, np.maximum(grid - 0.01 * top[0], 0)),
        certified_accuracy(c, grid + 0.01 * top[0]),
    )
    assert (drawn <= near[0] + 0.01).all()
    assert (drawn >= near[1] - 0.01).all()


def test_figure_is_accessible_and_stands_alone(make):
    text = curve_svg(
        [make([0.5], name="a & <b>", sigma=0.5), make([0.7], name="c" * 90, sigma=1.0)],
        title="T & t",
    )
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    titles = {e.get("id"): e.text for e in root if e.tag in (f"{SVG}title", f"{SVG}desc")}
    assert root.get("aria-labelledby").split() == list(titles)
    assert titles["curves-title"] == "T & t"
    assert (
        "a & <b> (σ=0.5): 100.0 % at radius 0, average certified radius 0.500"
        in titles["curves-desc"]
    )
    texts = [e.text for e in root.iter(f"{SVG}text")]
    assert "a & <b> (σ=0.5)" in texts
    assert "c" * 85 + "…" in texts  # 86 letters and a key are as wide as the axis
    assert root.find(f"{SVG}rect").get("fill") == "#fff"
    assert "a & <b>" not in [
        e.text for e in ET.fromstring(curve_svg([make([1])], legend=False)).iter()
    ]
    for line in root.iter(f"{SVG}polyline"):
        assert line.get("stroke") in COLOURS
        assert "var(--run-" in line.get("style")


@pytest.mark.parametrize("name", ["\x00\x1b\ufffe", "<script>", "]]>", '"', "\ud800"])
def test_any_name_gives_well_formed_svg(make, name):
    ET.fromstring(curve_svg([make([0.5], name=name)]).encode())


@pytest.mark.parametrize("radius", [[0.0], [1e-5], [500.0], [0.3] * 5000])
@pytest.mark.parametrize("correct", [True, False])
def test_extreme_runs_are_drawn(make, radius, correct):
    (line,) = polylines(curve_svg([make(radius, correct=[correct] * len(radius))]))
    assert np.isfinite(line).all()
    assert (line >= 0).all()


def test_no_runs():
    with pytest.raises(ConfigError, match="at least one run"):
        curve_svg([])


def test_forty_lines_are_distinct():
    assert (
        len({stroke(LineStyle(c, d)) for c in range(len(COLOURS)) for d in range(len(DASHES))})
        == 40
    )


@given(st.floats(1e-6, 1e6), st.integers(3, 12))
def test_ticks_are_few_round_and_within(top, most):
    marks = ticks(top, most)
    assert 2 <= len(marks) <= most + 1
    assert marks[0] == 0
    assert marks[-1] <= top * (1 + 1e-6)
    assert f"{marks[1]:e}"[:3].strip("0") in {"1.", "2.", "2.5", "5."}


@pytest.mark.parametrize(
    ("start", "top", "marks"), [(0.5, 1.0, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]), (-3, 2, [-2, 0, 2])]
)
def test_ticks_of_an_axis_that_does_not_start_at_0(start, top, marks):
    assert ticks(top, 9 if start > 0 else 4, start) == pytest.approx(marks)


def test_loss_keeps_the_last_of_a_repeated_epoch_and_the_look_of_the_run():
    epochs = [{"epoch": 0, "loss": 2.0}, {"epoch": 1, "loss": 9.0}, {"epoch": 1, "loss": 1.0}]
    more = [*epochs, {"epoch": 2, "loss": float("nan")}, {"epoch": 3}]
    text = training_svg({"b": more}, "loss", {"a": (0, LineStyle(0)), "b": (1, LineStyle(4, 1))})
    (line,) = polylines(text)
    assert len(line) == 2
    assert COLOURS[4] in text
    assert 'data-run="1"' in text
    assert DASHES[1] in text
    assert "b: 2 to 1" in text


def test_accuracy_during_training_is_drawn_from_the_tenth_below_it():
    epochs = [{"epoch": e, "noisy_test_accuracy": a} for e, a in enumerate((0.86, 0.97))]
    text = training_svg({"a": epochs}, "noisy_test_accuracy", {})
    shares = [
        e.text for e in ET.fromstring(text).iter(f"{SVG}text") if (e.text or "").endswith("%")
    ]
    assert (shares[0], shares[-1]) == ("80 %", "100 %")
    assert (polylines(text)[0] >= 0).all()


def test_no_measure_no_figure():
    training = {"a": [], "b": [{"epoch": 0, "loss": 1.0}], "c": [{"epoch": 0}, {"epoch": 1}]}
    assert training_svg(training, "loss", {}) is None
