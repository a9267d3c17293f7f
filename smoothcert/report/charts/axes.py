"""A chart drawn by matplotlib: lines, words, marks, and strips below the axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from smoothcert.report.charts.chart import Chart, legend_of, with_points
from smoothcert.report.charts.line_styles import COLOURS, DASHES, LineStyle
from smoothcert.report.charts.svg import BAND, Line, percent, shortened
from smoothcert.report.charts.words import place_words

# How matplotlib sets what the labels of axes have.
_MATH = {
    "ℓ₁": "$\\ell_1$",
    "ℓ₂": "$\\ell_2$",
    "ℓ∞": "$\\ell_\\infty$",
    "radius r": "radius $r$",
    "r = ": "$r$ = ",
    "confidence p": "confidence $p$",
    "≥ p": "≥ $p$",
}
# inches: a strip with its name, a letter's width, a line of a legend
_STRIP, _LETTER, _LINE = 0.32, 0.066, 0.18
_SIZES = {
    "x-small": 0.06,
    "xx-small": 0.05,
}  # of words in a strip: what fits in our SVG fits by the smaller one
_PIXEL = 0.7  # points: a pixel of our SVG, whose words are 11 pixels high
_WIDTH = 1.3  # points: of a line
# so many entries of a legend, and letters of each, fit among the curves
_INSIDE, _LONGEST_INSIDE = 8, 45


def draw_charts(charts: Sequence[Chart], title: str, size: tuple[float, float] | None) -> Any:
    """A figure with the charts side by side; `size` is in inches, by default as the charts need."""
    from matplotlib.figure import Figure

    strips = max(len(chart.strips) for chart in charts)
    usual = (5.5, 3.4) if len(charts) == 1 else (3.4 * len(charts), 2.9)
    width = size[0] if size else usual[0]
    entries = {} if strips else {line.label: line for line in legend_of(charts)}
    longest = max(map(len, entries), default=1)
    outside = len(charts) > 1 or len(entries) > _INSIDE or longest > _LONGEST_INSIDE
    columns = max(int(0.95 * width / (_LETTER * longest + 0.6)), 1)
    lines = math.ceil(len(entries) / columns) if outside else 0
    height = size[1] if size else usual[1] + _STRIP * strips + _LINE * lines
    figure = Figure(
        figsize=(width, height), layout="constrained"
    )  # no pyplot: no window, no global state
    below = {"height_ratios": (height - _STRIP * strips, _STRIP * strips)} if strips else {}
    axes = figure.subplots(2 if strips else 1, len(charts), squeeze=False, gridspec_kw=below)
    for place, chart in enumerate(charts):
        _draw_lines(axes[0][place], chart, title if len(charts) == 1 else "")
        if strips:
            _draw_strips(axes[1][place], chart, width)
    if outside and entries:
        fitting = int((0.95 * width - 0.6) / _LETTER)
        handles = [
            _plot(axes[0][0], replace(line, label=shortened(line.label, fitting)), [], [])
            for line in entries.values()
        ]
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize="small",
        )
    elif not strips:
        axes[0][0].legend(frameon=False, fontsize="small", handlelength=2.6)
    if title and len(charts) > 1:
        figure.suptitle(title)
    if any(chart.texts for chart in charts):
        figure.draw_without_rendering()  # so that the axes have their size
        for place, chart in enumerate(charts):
            _draw_texts(axes[0][place], chart)
    return figure


def _draw_texts(axes: Any, chart: Chart) -> None:
    pixel = _PIXEL * axes.figure.dpi / 72

    def at(x: float, y: float) -> tuple[float, float]:
        right, up = axes.transData.transform((x, y)) / pixel
        return float(right), -float(up)

    (left, bottom), (right, top) = (
        at(x, y) for x, y in zip(chart.frame.x, chart.frame.y, strict=True)
    )
    words = [(at(text.x, text.y), text.text) for text in chart.texts]
    lines = [[at(*point) for point in line] for line in with_points(chart.lines)]
    places = place_words(words, lines, (left, top, right, bottom))
    for text, ((x, y), word), place in zip(chart.texts, words, places, strict=True):
        if place:
            move = _PIXEL * (place.at[0] - x), -_PIXEL * (place.at[1] - y)
            line = {
                "arrowstyle": "-",
                "linewidth": 0.5,
                "color": "#777777",
                "shrinkA": 0,
                "shrinkB": 0,
            }
            look = {
                "fontsize": "x-small",
                "ha": "center",
                "va": "center",
                "arrowprops": line if place.line else None,
            }
            axes.annotate(
                word,
                (text.x, text.y),
                xytext=move,
                textcoords="offset points",
                in_layout=False,
                **look,
            )


def _plot(axes: Any, line: Line, x: Any, y: Any) -> Any:
    colour, look = COLOURS[line.style.colour], _stroke(line.style)
    if line.dots:
        look |= {"linestyle": "", "marker": "o"}
    elif line.marker:
        full = line.marker == "full"
        look |= {
            "marker": "o",
            "markersize": 4 if full else 7,
            "markerfacecolor": colour if full else "none",
        }
        if line.marked is not None and len(x):  # a point may lie on the frame
            look |= {"markevery": list(line.marked), "clip_on": False}
    return axes.plot(x, y, label=_plain(line.label), **look)[0]


def _stroke(style: LineStyle) -> dict[str, Any]:
    """Dashes as long as in our SVG, so that the key in a legend shows them; matplotlib counts them in line widths."""
    dashes = [float(length) * _PIXEL / _WIDTH for length in DASHES[style.dash].split()]
    return {
        "color": COLOURS[style.colour],
        "linewidth": _WIDTH,
        "linestyle": (0, dashes) if dashes else "-",
    }


def _draw_lines(axes: Any, chart: Chart, title: str) -> None:
    from matplotlib.ticker import FuncFormatter

    for line in chart.lines:
        _plot(axes, line, line.x, line.y)
        if line.band is not None and line.dots:
            axes.vlines(line.x, *line.band, color=COLOURS[line.style.colour], linewidth=_WIDTH)
        elif line.band is not None:
            axes.fill_between(
                line.x, *line.band, color=COLOURS[line.style.colour], alpha=BAND, linewidth=0
            )
    for mark in chart.marks:
        axes.axvline(mark.x, color="#777777", linewidth=0.8, linestyle=":")
        place = {"xytext": (2, -2), "textcoords": "offset points", "va": "top"}
        axes.annotate(
            mark.text, (mark.x, chart.frame.y[1]), fontsize="x-small", color="#555555", **place
        )
    x_label, y_label = map(_formulas, chart.labels)
    axes.set(xlim=chart.frame.x, ylim=chart.frame.y, xlabel=x_label, ylabel=y_label, title=title)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: chart.frame.y_format(y)))
    if (
        chart.frame.x_format is percent
    ):  # numbers are formatted by matplotlib, with the same digits on all ticks
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: percent(x)))
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if chart.frame.y[0] < 0 < chart.frame.y[1]:
        axes.axhline(0.0, color="#555555", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_strips(axes: Any, chart: Chart, inches: float) -> None:
    """Under each other, the first on top, with the names of the strips above their bars."""
    left, right = chart.frame.x
    axes.set(xlim=(left, right), ylim=(len(chart.strips), 0))
    axes.axis("off")
    inch = (right - left) / (0.85 * inches)
    for row, strip in enumerate(chart.strips):
        axes.plot([left, left + 0.05 * (right - left)], [row + 0.22] * 2, **_stroke(strip.style))
        axes.text(
            left + 0.06 * (right - left),
            row + 0.22,
            _plain(strip.label),
            fontsize="x-small",
            va="center",
        )
        for segment in strip.segments:
            ends = (segment.start, segment.end - segment.start)
            colour = COLOURS[strip.style.colour], 0.22
            axes.broken_barh(
                [ends], (row + 0.45, 0.45), facecolor=colour, edgecolor="white", linewidth=1
            )
            length, middle = segment.end - segment.start, (segment.start + segment.end) / 2
            size = next(
                (
                    size
                    for size, letter in _SIZES.items()
                    if len(segment.text) * letter * inch < length
                ),
                None,
            )
            if size is not None:
                axes.text(
                    middle,
                    row + 0.69,
                    _plain(segment.text),
                    fontsize=size,
                    ha="center",
                    va="center",
                )


def _formulas(label: str) -> str:
    label = _plain(label)
    for text, formula in _MATH.items():
        label = label.replace(text, formula)
    return label


def _plain(name: str) -> str:
    """A name as matplotlib takes it: a dollar sign begins no formula, an underscore hides no entry of a legend."""
    shown = name.replace("$", r"\$")
    return r"$\_$" + shown[1:] if shown.startswith("_") else shown
