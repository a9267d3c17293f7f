"""Figures for papers: the formats, and what is said where matplotlib is missing."""

import sys

import numpy as np
import pytest

from smoothcert.errors import ConfigError, MissingExtra
from smoothcert.report import curve_svg, save_figure
from smoothcert.report.charts.axes import draw_charts
from smoothcert.report.charts.chart import charts_svg
from smoothcert.report.charts.curves import accuracy_chart


@pytest.fixture
def runs(make):
    rng = np.random.default_rng(0)
    return [
        make(rng.exponential(0.5, 300), name=name, sigma=0.5) for name in ("gaussian", "smoothmix")
    ]


@pytest.mark.parametrize(("kind", "start"), [("pdf", b"%PDF-"), ("png", b"\x89PNG")])
def test_figure_by_matplotlib(runs, tmp_path, kind, start):
    pytest.importorskip("matplotlib")
    save_figure(runs, tmp_path / f"a.{kind}", title="T")
    save_figure(runs, tmp_path / f"b.{kind}", title="T")
    content = (tmp_path / f"a.{kind}").read_bytes()
    assert content.startswith(start)
    assert content == (tmp_path / f"b.{kind}").read_bytes()  # no date, no random name
    assert "matplotlib.pyplot" not in sys.modules


def test_what_names_a_strip_in_an_svg_names_it_in_other_figures_too_and_fits(make):
    pytest.importorskip("matplotlib")
    from smoothcert.report.charts.drawings import Scene, draw

    # the first is best up to a radius of 0.01 to 0.2, the second from there to 1: strips from narrow to wide
    named = []
    for end in np.linspace(0.01, 0.2, 20).tolist():
        runs = [
            make([end] * 4, name="cohen", sigma=0.25),
            make([1.0] * 4, [1, 0, 0, 0], name="cohen", sigma=0.5),
        ]
        charts = draw("envelope", Scene(runs))
        svg = ">σ=0.25</text>" in charts_svg(charts)
        figure = draw_charts(charts, "", None)
        figure.draw_without_rendering()
        words = [text for text in figure.axes[1].texts if text.get_text() == "σ=0.25"]
        assert len(words) == 1 or not svg
        left, right = figure.axes[1].transData.transform([(0, 0), (end, 0)])[:, 0]
        assert all(word.get_window_extent().width < 1.05 * (right - left) for word in words)
        named.append(svg)
    assert {*named} == {True, False}


@pytest.mark.parametrize("count", [8, 9, 24])
def test_a_legend_of_many_runs_lies_below_the_curves(make, count):
    pytest.importorskip("matplotlib")
    from smoothcert.report.charts.axes import draw_charts
    from smoothcert.report.charts.drawings import Scene, draw

    runs = [
        make([0.5, 1.0], name=f"a run with a number, {place}", sigma=0.5) for place in range(count)
    ]
    figure = draw_charts(draw("accuracy", Scene(runs)), "", None)
    figure.draw_without_rendering()  # lays it out
    (axes,) = figure.axes
    inside, curves = figure.bbox, axes.get_window_extent()
    assert curves.height > 0.7 * 3.4 * figure.dpi  # they keep their room
    legends = figure.legends or [axes.get_legend()]
    assert len(legends[0].get_texts()) == count
    box = legends[0].get_window_extent()
    assert box.x0 >= inside.x0
    assert box.x1 <= inside.x1
    assert box.y0 >= inside.y0
    assert box.y1 <= inside.y1
    assert (box.y1 <= curves.y0) == (count > 8)


@pytest.mark.parametrize("count", [5, 10])
def test_the_keys_of_a_legend_show_the_dashes(make, count):
    """The fifth run of a method has the longest dashes: its key was as solid as that of the first."""
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    runs = [make([0.5, 1.0], name=f"gaussian/{place}") for place in range(count)]
    figure = draw_charts([accuracy_chart(runs)], "", None)
    figure.set_dpi(300)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    dark = np.asarray(canvas.buffer_rgba())[::-1, :, 0] < 128
    (legend,) = figure.legends or [figure.axes[0].get_legend()]
    parts = []
    for key in legend.get_lines():
        box = key.get_window_extent()
        row = dark[int(box.y0) - 2, int(box.x0) - 5 : int(box.x1) + 6]
        parts.append(int(np.count_nonzero(row[1:] & ~row[:-1])))
    assert [min(number, 2) for number in parts] == [1, 2, 2, 2, 2] * (count // 5)


def test_svg_is_our_own_drawing(runs, tmp_path):
    save_figure(runs, tmp_path / "a.SVG", title="T")
    assert (tmp_path / "a.SVG").read_text(encoding="utf-8") == curve_svg(runs, title="T")


def test_without_matplotlib(runs, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.ticker"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtra, match=r"a figure as PDF needs the package 'matplotlib'.*smoothcert\[figures\]"
    ):
        save_figure(runs, tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()
    save_figure(runs, tmp_path / "a.svg")


def test_what_cannot_be_a_figure(runs, tmp_path):
    with pytest.raises(ConfigError, match=r"ends in \.pdf, \.png, \.svg, found '\.jpg'"):
        save_figure(runs, tmp_path / "a.jpg")
    with pytest.raises(ConfigError, match="at least one run"):
        save_figure([], tmp_path / "a.svg")


def test_every_run_is_in_the_legend_of_matplotlib(make):
    """It leaves out names that begin with an underscore."""
    pytest.importorskip("matplotlib")
    runs = [make([0.5, 1.0], name=name) for name in ("_first", "$second$", "third_")]
    (axes,) = draw_charts([accuracy_chart(runs)], "", None).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        r"$\_$first",
        r"\$second\$",
        "third_",
    ]
