"""Figures of adversarial paths and mixing ratios: what is drawn where."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report.charts.evaluations import dimension_svg, path_svg, ratio_svg
from smoothcert.report.charts.line_styles import COLOURS, METHODS

SVG = "{http://www.w3.org/2000/svg}"


def points(svg):
    lines = ET.fromstring(svg).iter(f"{SVG}polyline")
    return [
        np.array([[float(v) for v in p.split(",")] for p in line.get("points").split()])
        for line in lines
    ]


def test_a_path_shows_both_confidences_and_the_mixed_images():
    ratios = np.linspace(0, 1, 11)
    images = [np.full((1, 4, 4), value) for value in (0.0, 0.5, 1.0)]
    svg = path_svg(ratios, (1 - ratios, ratios), ("seven", "two"), images, 0.5, "run, image 3")
    own, other = points(svg)
    assert own[0, 1] < own[-1, 1]
    assert other[0, 1] > other[-1, 1]
    assert own[5, 1] == pytest.approx(other[5, 1])
    pictures = list(ET.fromstring(svg).iter(f"{SVG}image"))
    assert len(pictures) == 3
    centres = [float(picture.get("x")) + 32 for picture in pictures]
    assert centres == pytest.approx([own[0, 0], own[5, 0], own[-1, 0]], abs=0.2)
    assert all(picture.get("href").startswith("data:image/png;base64,") for picture in pictures)
    assert "the answer changes at ratio 0.50" in svg
    assert "never" in path_svg(ratios, (ratios, ratios), ("a", "b"), images, None, "x")


def test_mixing_ratios_are_a_histogram_of_all_inputs():
    svg = ratio_svg({"a": [0.11, 0.12, 0.5, np.nan], "b": [0.9, 0.9, 0.9, 0.9]}, bins=10)
    a, b = points(svg)
    bottom = a[0, 1]
    heights = bottom - a[:, 1]
    assert heights.max() == pytest.approx(
        2 * (heights[heights > 0].min()), rel=0.01
    )  # two of four and one of four
    assert (bottom - b[:, 1]).max() == pytest.approx(2 * heights.max(), rel=0.01)  # all four
    assert "a: median 0.12; b: median 0.90" in svg
    assert "median nan" in ratio_svg({"never": [np.nan]})
    colours = re.findall(
        r'<polyline fill="none" stroke="(#\w+)"',
        ratio_svg({"smoothmix-0.50": [0.5], "gaussian": [0.5]}),
    )
    assert colours == [
        COLOURS[METHODS.index("smoothmix")],
        COLOURS[METHODS.index("gaussian")],
    ]  # as everywhere
    with pytest.raises(ConfigError, match="at least one model"):
        ratio_svg({})


def test_the_bound_falls_over_powers_of_ten():
    dimensions = np.logspace(0, 4, 50)
    (line,) = points(dimension_svg(dimensions, np.minimum(1, 100 / dimensions), "levels"))
    assert np.all(np.diff(line[:, 1]) >= 0)
    assert np.allclose(np.diff(line[:, 0]), np.diff(line[:, 0]).mean(), atol=0.2)
    assert re.search(
        "log₁₀ of the input dimension", dimension_svg(dimensions, dimensions / 1e4, "x")
    )
