"""Accuracy against robustness along a hyperparameter, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from smoothcert.report.charts.chart import Text, texts_svg
from smoothcert.report.charts.line_styles import LineStyle
from smoothcert.report.charts.svg import Frame, Line, drawing, fill, stroke
from smoothcert.report.measures.tradeoff import Point, TradeOff
from smoothcert.statistics.printed import in_percent, number


def trade_off_svg(
    found: TradeOff, styles: Sequence[LineStyle], name: str, down: bool = False
) -> str:
    """A point for each value of the hyperparameter, joined in its order: right and up is better."""
    clean = np.array([100 * point.clean for point in found.points])
    acr = np.array([point.acr for point in found.points])
    frame = Frame(axis_around(clean), axis_around(acr), 540, 320, left=78, ticks=(7, 7))
    style = styles[found.points[0].run]
    line = Line(
        found.method, clean, acr, LineStyle(style.colour), found.points[0].run, marker="full"
    )
    path = " ".join(
        f"{frame.px(x):.1f},{frame.py(y):.1f}" for x, y in zip(line.x, line.y, strict=True)
    )
    inside = [f'<polyline {stroke(line.style)} points="{path}"/>']
    for point, x, y in zip(found.points, clean, acr, strict=True):
        text = f"{found.parameter} = {point.value:g}"
        inside.append(
            f"<g><title>{escape(f'{text}: accuracy {_told(point, down)}')}</title>"
            f'<circle cx="{frame.px(x):.1f}" cy="{frame.py(y):.1f}" r="4.5" {fill(line.style)}/></g>'
        )
    texts = [
        Text(x, y, f"{point.value:g}") for point, x, y in zip(found.points, clean, acr, strict=True)
    ]
    inside += texts_svg(frame, texts, [line])
    points = "; ".join(f"{point.value:g}: {_told(point, down)}" for point in found.points)
    return drawing(
        frame,
        inside,
        title=f"{found.method}: accuracy and ACR by {found.parameter}",
        description=f"{found.parameter} = {points}.",
        labels=("accuracy at r = 0 (%)", "average certified radius"),
        name=name,
    )


def _told(point: Point, down: bool) -> str:
    return f"{in_percent(point.clean, down)} %, ACR {number(point.acr, 3, down)}"


def axis_around(values: np.ndarray) -> tuple[float, float]:
    """An axis a little wider than the values, never empty; they differ where it is more than by rounding."""
    low, high = float(values.min()), float(values.max())
    differ = high - low > 1e-9 * max(abs(low), abs(high))
    pad = 0.15 * (high - low) if differ else 0.05 * abs(high) or 0.5
    return low - pad, high + pad
