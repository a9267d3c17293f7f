"""Radius histograms: true to the numbers."""

import numpy as np
import pytest

from smoothcert.report.views.radii import histogram_figure, radius_edges, radius_histogram
from tests.report.drawn import words


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


def test_bars_and_the_saturation_line(make):
    c = make([0.2, 0.6, 0.6, 1.2], [1, 1, 0, 1], predict=np.array([0, 0, 3, 0]), sigma=0.5, n=1000)
    known = make([0.2, 0.6, 0.6, 1.2], sigma=0.5, n=1000, alpha=0.001, name="known")
    figure = histogram_figure([c, known])
    right, wrong = figure.axes[0].patches
    found = radius_histogram(c, radius_edges([c, known]))
    assert right.get_data().values.tolist() == found.correct.tolist()
    values, _, below = wrong.get_data()  # on top of the correct ones
    assert (values - below).tolist() == pytest.approx(found.wrong.tolist())
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert len(figure.axes[0].get_lines()) == 0  # its alpha is not known
    (limit,) = figure.axes[1].get_lines()
    assert limit.get_xdata()[0] == pytest.approx(1.2316, abs=1e-3)
    assert "saturation 1.232" in words(figure)
    assert "25.0 % wrong" in figure.get_label()


@pytest.mark.parametrize("radius", [[0.0], [5e-5], [400.0]])
@pytest.mark.parametrize("count", [1, 4, 30])
def test_any_radii_of_any_number_of_runs_are_drawn(make, radius, count):
    figure = histogram_figure([make(radius, name=f"r{place}") for place in range(count)])
    figure.draw_without_rendering()
    assert sum(bool(axes.patches) for axes in figure.axes) == min(count, 24)
