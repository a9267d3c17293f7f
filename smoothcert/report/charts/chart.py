"""A chart that any renderer can draw: SVG of our own here, PDF and PNG by matplotlib (figure.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smoothcert.report.charts.svg import Frame, Line, line_chart
from smoothcert.report.measures.analysis import Floats


@dataclass(frozen=True)
class Chart:
    """Lines in full length in a frame; `labels` name its axes, and `name` makes its ids unique in a page."""

    lines: tuple[Line, ...]
    frame: Frame
    title: str
    description: str
    labels: tuple[str, str]
    name: str


def chart_svg(chart: Chart, *, legend: bool = True, points: int = 400) -> str:
    """The chart as SVG, each line by at most `points` points; `legend=False` if the page around it has its own."""
    top = chart.frame.x[1], chart.frame.y[1]
    thinned = [line if line.dots or line.band else _thinned(line, top, points) for line in chart.lines]
    return line_chart(
        thinned,
        chart.frame,
        title=chart.title,
        description=chart.description,
        labels=chart.labels,
        legend=legend,
        name=chart.name,
    )


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
