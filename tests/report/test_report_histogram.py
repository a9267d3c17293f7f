"""Radius histograms and the trade-off chart: true to the numbers."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from smoothcert.report.charts.histogram import histogram_svg, radius_edges, radius_histogram
from smoothcert.report.charts.line_styles import LineStyle
from smoothcert.report.charts.scatter import trade_off_svg
from smoothcert.report.measures.tradeoff import Point, TradeOff

SVG = "{http://www.w3.org/2000/svg}"


def test_histogram_known_answers(make):
    c = make([0.05, 0.15, 0.15, 0.95, 0.5], [1, 1, 0, 1, 0], predict=np.array([0, 0, 3, 0, -1]))
    found = radius_histogram(c, np.linspace(0, 1, 11))
    assert found.correct.tolist() == pytest.approx([0.2, 0.2, 0, 0, 0, 0, 0, 0, 0, 0.2])
    assert found.wrong.tolist() == pytest.approx(
        [0, 0.2, 0, 0, 0, 0, 0, 0, 0, 0]
    )  # the abstention is nowhere
    assert found.top == pytest.approx(0.4)
    assert (found.saturation, found.saturated) == (None, 0.0)


def test_saturated_share(make):
    c = make([1.9057, 1.91, 1.8, 1.91], [1, 1, 1, 0], sigma=0.5, n=100_000, alpha=0.001)
    edges = radius_edges([c])
    assert edges[0] == 0
    assert edges[-1] == pytest.approx(1.02 * 1.91)
    assert radius_histogram(c, edges).saturated == 0.5


def test_bars_and_the_saturation_line_in_pixels(make):
    c = make([0.2, 0.6, 0.6, 1.2], sigma=0.5, n=1000, alpha=0.001)
    edges = np.linspace(0, 1.25, 6)
    text = histogram_svg(radius_histogram(c, edges), "a & b", LineStyle(3), 0.5, "radii-0")
    root = ET.fromstring(text)
    left, right, bottom = (float(root.get(f"data-{key}")) for key in ("left", "right", "bottom"))
    bars = [bar for bar in root.iter(f"{SVG}rect") if "run-3" in (bar.get("style") or "")]
    heights = [float(bar.get("height")) for bar in bars]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[1] == pytest.approx(bottom - float(root.get("data-top")), abs=0.2)
    (limit,) = (path for path in root.iter(f"{SVG}path") if path.get("class") == "limit")
    x = float(limit.get("d")[1:].split()[0])
    assert (x - left) / (right - left) * 1.25 == pytest.approx(1.2316, abs=5e-3)
    assert "25.0 % correct at the saturation radius 1.232" not in text
    assert "saturation 1.232" in text
    (last,) = (label for label in root.iter(f"{SVG}text") if label.text == "1.25")
    assert float(last.get("x")) + 4 * 8 / 2 <= float(
        root.get("width")
    )  # four letters of 8 pixels are not cut


@pytest.mark.parametrize("radius", [[0.0], [5e-5], [400.0]])
def test_extreme_radii_are_drawn(make, radius):
    c = make(radius)
    ET.fromstring(
        histogram_svg(radius_histogram(c, radius_edges([c])), "x", LineStyle(0), 1.0, "r")
    )


def test_trade_off_chart():
    points = (Point(1.0, 0.95, 1.6, 0), Point(5.0, 0.93, 1.7, 1))
    text = trade_off_svg(TradeOff("smoothmix", "eta", points), [LineStyle(6), LineStyle(6, 1)], "t")
    root = ET.fromstring(text)
    (first, second) = root.iter(f"{SVG}circle")
    assert float(first.get("cx")) > float(second.get("cx"))  # more accurate: further right
    assert float(first.get("cy")) > float(second.get("cy"))  # less robust: lower
    assert "eta = 5: accuracy 93.0 %, ACR 1.700" in [
        title.text for title in root.iter(f"{SVG}title")
    ]


def test_trade_off_of_equal_values_is_drawn():
    points = (Point(1.0, 0.0, 0.0, 0), Point(2.0, 0.0, 0.0, 0))
    ET.fromstring(trade_off_svg(TradeOff("m", "p", points), [LineStyle(0)], "t"))
