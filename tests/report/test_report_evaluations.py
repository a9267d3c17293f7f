"""Figures of adversarial paths and mixing ratios: what is drawn where."""

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report.explained import dimension_figure, path_figure, ratio_figure
from smoothcert.report.read.methods import METHODS
from tests.report.drawn import lines


def test_a_path_shows_both_confidences_and_the_mixed_images():
    ratios = np.linspace(0, 1, 11)
    images = [np.full((1, 4, 4), value) for value in (0.0, 0.5, 1.0)]
    figure = path_figure(ratios, (1 - ratios, ratios), ("seven", "two"), images, 0.5, "image 3")
    own, other = lines(figure)
    assert (own.label, own.y.tolist()) == ("seven: the image's answer", (1 - ratios).tolist())
    assert other.y.tolist() == ratios.tolist()
    figure.draw_without_rendering()
    axes, *small = (figure.axes[0], *figure.axes[0].child_axes)
    assert [int(each.get_images()[0].get_array()[0, 0, 0]) for each in small] == [0, 128, 255]
    centres = [each.get_window_extent() for each in small]
    at = axes.transData.inverted().transform([((b.x0 + b.x1) / 2, b.y0) for b in centres])
    assert at[:, 0] == pytest.approx([0, 0.5, 1], abs=0.01)  # above their ratios
    assert (at[:, 1] > 1).all()
    assert "the answer changes at ratio 0.50" in figure.get_label()
    never = path_figure(ratios, (ratios, ratios), ("a", "b"), images, None, "x")
    assert "never" in never.get_label()


def test_mixing_ratios_are_a_histogram_of_all_inputs():
    figure = ratio_figure({"a": [0.11, 0.12, 0.5, np.nan], "b": [0.9, 0.9, 0.9, 0.9]}, bins=10)
    a, b = lines(figure)
    assert sorted({*a.y}) == [0, 0.25, 0.5]  # two of four and one of four
    assert max(b.y) == 1
    assert "a: median 0.12; b: median 0.90" in figure.get_label()
    assert "median nan" in ratio_figure({"never": [np.nan]}).get_label()
    drawn = lines(ratio_figure({"smoothmix-0.50": [0.5], "gaussian": [0.5]}))
    assert [line.colour for line in drawn] == [METHODS.index(m) for m in ("smoothmix", "gaussian")]
    with pytest.raises(ConfigError, match="at least one model"):
        ratio_figure({})


def test_the_bound_falls_over_powers_of_ten():
    dimensions = np.logspace(0, 4, 50)
    figure = dimension_figure(dimensions, np.minimum(1, 100 / dimensions), "levels")
    (line,) = lines(figure)
    assert (np.diff(line.y) <= 0).all()
    assert figure.axes[0].get_xscale() == "log"
