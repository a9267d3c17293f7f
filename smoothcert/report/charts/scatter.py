"""Accuracy against robustness along a hyperparameter, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from smoothcert.report.charts.chart import Text, texts_svg
from smoothcert.report.charts.line_styles import LineStyle
from smoothcert.report.charts.svg import Frame, Line, drawing, fill, stroke
from smoothcert.report.measures.tradeoff import TradeOff


def trade_off_svg(found: TradeOff, styles: Sequence[LineStyle], name: str) -> str:
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
            f"<g><title>{escape(f'{text}: accuracy {x:.1f} %, ACR {y:.3f}')}</title>"
            f'<circle cx="{frame.px(x):.1f}" cy="{frame.py(y):.1f}" r="4.5" {fill(line.style)}/></g>'
        )
    texts = [
        Text(x, y, f"{point.value:g}") for point, x, y in zip(found.points, clean, acr, strict=True)
    ]
    inside += texts_svg(frame, texts, [line])
    points = "; ".join(f"{p.value:g}: {100 * p.clean:.1f} %, ACR {p.acr:.3f}" for p in found.points)
    return drawing(
        frame,
        inside,
        title=f"{found.method}: accuracy and ACR by {found.parameter}",
        description=f"{found.parameter} = {points}.",
        labels=("accuracy at r = 0 (%)", "average certified radius"),
        name=name,
    )


def axis_around(values: np.ndarray) -> tuple[float, float]:
    """An axis a little wider than the values, never empty; they differ where it is more than by rounding."""
    low, high = float(values.min()), float(values.max())
    differ = high - low > 1e-9 * max(abs(low), abs(high))
    pad = 0.15 * (high - low) if differ else 0.05 * abs(high) or 0.5
    return low - pad, high + pad
