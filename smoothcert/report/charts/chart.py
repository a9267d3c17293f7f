"""A chart that any renderer can draw: SVG of our own here, PDF and PNG by matplotlib (axes.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from smoothcert.report.charts.line_styles import LineStyle
from smoothcert.report.charts.svg import (
    Frame,
    Line,
    fill,
    legend_entries,
    legend_height,
    line_chart,
    stroke,
)
from smoothcert.report.charts.words import place_words
from smoothcert.report.measures.analysis import Floats

# pixels: a strip with its name, its bar, and the width of a letter
_STRIP, _BAR, _LETTER = 40, 16, 6.5


@dataclass(frozen=True)
class Text:
    """A word beside the point (x, y) of a chart; whoever draws it finds room for it (words.py)."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Mark:
    """A vertical line at x with a word at its top, which may be empty; `about` is shown at the pointer."""

    x: float
    text: str
    about: str


@dataclass(frozen=True)
class Segment:
    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Strip:
    """A bar below the axis, cut into segments along x; it stands in place of a legend entry."""

    label: str
    style: LineStyle
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Chart:
    """Lines in full length in a frame; `labels` name its axes, and `name` makes its ids unique in a page.

    Where there are `strips`, they are the legend.
    """

    lines: tuple[Line, ...]
    frame: Frame
    title: str
    description: str
    labels: tuple[str, str]
    name: str
    texts: tuple[Text, ...] = ()
    marks: tuple[Mark, ...] = ()
    strips: tuple[Strip, ...] = ()


def chart_svg(chart: Chart, *, legend: bool = True, points: int = 400) -> str:
    """The chart as SVG, each line by at most `points` points; `legend=False` if the page around it has its own."""
    top = chart.frame.x[1], chart.frame.y[1]
    thinned = [
        line if line.dots or line.band or line.marked else _thinned(line, top, points)
        for line in chart.lines
    ]
    return line_chart(
        thinned,
        chart.frame,
        title=chart.title,
        description=chart.description,
        labels=chart.labels,
        legend=legend and not chart.strips,
        name=chart.name,
        more=[*texts_svg(chart.frame, chart.texts, chart.lines), *_marks(chart), *_strips(chart)],
        below=_STRIP * len(chart.strips),
    )


def charts_svg(charts: Sequence[Chart]) -> str:
    """Charts side by side as one SVG, with one legend for all: a line of the same label is the same in each."""
    if len(charts) == 1:
        return chart_svg(charts[0])
    lines = legend_of(charts)
    longest = min(2 + max(10, *(len(line.label) for line in lines)), 45)
    inside, width = [], 0
    for chart in charts:
        text = chart_svg(chart, legend=False)
        inside.append(text.replace("<svg ", f'<svg x="{width}" y="0" ', 1))
        width += chart.frame.width
    top = max(chart.frame.height for chart in charts)
    frame = replace(charts[0].frame, width=width, height=top, margin_bottom=54)
    height = top + legend_height(frame, lines, longest) + 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="smoothcert-chart" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" font-family="system-ui, sans-serif" font-size="13">',
            f'<rect width="{width}" height="{height}" fill="#fff" style="fill:var(--paper,#fff)"/>',
            *inside,
            *legend_entries(frame, lines, longest),
            "</svg>\n",
        ]
    )


def legend_of(charts: Sequence[Chart]) -> list[Line]:
    """The lines of all charts, each label once."""
    return list(
        {line.label: line for chart in reversed(charts) for line in reversed(chart.lines)}.values()
    )[::-1]


def with_points(lines: Sequence[Line]) -> list[list[tuple[float, float]]]:
    """Those lines whose points are drawn."""
    return [
        list(zip(line.x.tolist(), line.y.tolist(), strict=True)) for line in lines if line.marker
    ]


def texts_svg(frame: Frame, texts: Sequence[Text], lines: Sequence[Line]) -> list[str]:
    """The words that find room, with thin lines to those that had to go far from their points."""
    words = [((frame.px(entry.x), frame.py(entry.y)), entry.text) for entry in texts]
    joined = [[(frame.px(x), frame.py(y)) for x, y in line] for line in with_points(lines)]
    places = place_words(words, joined, (frame.left, frame.top, frame.right, frame.bottom))
    soft, drawn = 'stroke="#777" stroke-width="0.7" style="stroke:var(--soft,#777)"', []
    for ((x, y), text), place in zip(words, places, strict=True):
        if place and place.line:
            drawn.append(
                f'<path d="M{x:.1f} {y:.1f}L{place.line[0]:.1f} {place.line[1]:.1f}" {soft}/>'
            )
        if place:
            drawn.append(
                f'<text x="{place.at[0]:.1f}" y="{place.at[1] + 4:.1f}" font-size="11" text-anchor="middle" '
                f'fill="#222" style="fill:var(--ink,#222)">{escape(text)}</text>'
            )
    return drawn


def _marks(chart: Chart) -> list[str]:
    frame, soft = (
        chart.frame,
        'stroke="#777" style="stroke:var(--soft,#777)" stroke-dasharray="2 3"',
    )
    return [
        f"<g><title>{escape(mark.about)}</title>"
        f'<path d="M{frame.px(mark.x):.1f} {frame.top}V{frame.bottom}" {soft}/>'
        f'<text x="{frame.px(mark.x) + 4:.1f}" y="{frame.top + 11}" font-size="11" fill="#555" '
        f'style="fill:var(--soft,#555)">{escape(mark.text)}</text></g>'
        for mark in chart.marks
    ]


def _strips(chart: Chart) -> list[str]:
    frame, drawn = chart.frame, []
    for number, strip in enumerate(chart.strips):
        y = frame.bottom + 58 + _STRIP * number
        ink = 'fill="#222" style="fill:var(--ink,#222)"'
        drawn.append(f'<path d="M{frame.left} {y + 6}h28" {stroke(strip.style)}/>')
        drawn.append(f'<text x="{frame.left + 36}" y="{y + 10}" {ink}>{escape(strip.label)}</text>')
        for segment in strip.segments:
            left, right = frame.px(segment.start), frame.px(segment.end)
            fits = len(segment.text) * _LETTER + 6 < right - left
            word = (
                f'<text x="{(left + right) / 2:.1f}" y="{y + 27}" font-size="12" text-anchor="middle" {ink}>'
                f"{escape(segment.text)}</text>"
                if fits
                else ""
            )
            drawn.append(
                f"<g><title>{escape(f'{segment.text}: {segment.start:.3g} to {segment.end:.3g}')}</title>"
                f'<rect x="{left:.1f}" y="{y + 15}" width="{max(right - left - 1.5, 0.5):.1f}" height="{_BAR}" '
                f'fill-opacity="0.22" {fill(strip.style)}/>{word}</g>'
            )
    return drawn


def _thinned(line: Line, top: tuple[float, float], points: int) -> Line:
    x, y = thin(line.x, line.y, top, points)
    return replace(line, x=x, y=y)


def thin(x: Floats, y: Floats, top: tuple[float, float], points: int) -> tuple[Floats, Floats]:
    """At most `points` corners of a curve, evenly along its length as drawn; both ends of each jump stay.

    Length is measured in units of the axes, so a falling curve is about 2 long at most: of 400 points on 700 pixels
    two neighbours are a few pixels apart, or the ends of a jump.
    """
    if len(x) <= points:
        return x, y
    steps = np.abs(np.diff(x, prepend=x[0])) / top[0] + np.abs(np.diff(y, prepend=y[0])) / top[1]
    length = np.cumsum(steps)
    bucket = np.floor(length / length[-1] * (points // 2 - 1))
    changes = np.diff(bucket) > 0
    keep = np.concatenate([[True], changes]) | np.concatenate([changes, [True]])
    return x[keep], y[keep]
