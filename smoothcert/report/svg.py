"""A line chart as one SVG: alone in a README, or inlined in a page that sets the colours by CSS variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito's colours, told apart with any colour vision; seven colours and five dashes make 35 lines distinct.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#222222")
DASHES = ("", "7 3", "3 2.5", "9 3 2 3", "14 4")
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720, 64, 704, 16, 330
LEGEND_COLUMNS, LEGEND_LINE = 3, 22


@dataclass(frozen=True)
class Line:
    """One polyline; `slot` chooses its colour and dashes, so that a run looks the same in every chart."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    slot: int


def stroke(slot: int) -> str:
    """Colour and dashes of a slot: attributes for every viewer, the CSS variable for those that know it."""
    colour = slot % len(COLOURS)
    dash = DASHES[slot % len(DASHES)]
    return (
        f'fill="none" stroke="{COLOURS[colour]}" style="stroke:var(--run-{colour},{COLOURS[colour]})" '
        f'stroke-width="2" stroke-linejoin="round"' + (f' stroke-dasharray="{dash}"' if dash else "")
    )


def ticks(top: float, most: int = 9) -> list[float]:
    """Round numbers 0, step, 2 step, ... up to `top`, with step 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(top / most))
    step = next(s for s in (power, 2 * power, 2.5 * power, 5 * power, 10 * power) if top / s < most)
    return [i * step for i in range(int(top / step * (1 + 1e-9)) + 1)]


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    description: str,
    labels: tuple[str, str],
    top: tuple[float, float],
    y_ticks: int = 7,
    y_format: Callable[[float], str] = "{:g}".format,
    legend: bool = True,
    name: str = "chart",
) -> str:
    """Draw the lines over [0, top x] x [0, top y]; `name` keeps ids apart when a page holds several charts."""
    x_top, y_top = top
    height = BOTTOM + 54 + legend * LEGEND_LINE * math.ceil(len(lines) / LEGEND_COLUMNS)

    def px(x: float) -> float:
        return LEFT + (RIGHT - LEFT) * x / x_top

    def py(y: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * y / y_top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="smoothcert-chart" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="{name}-title {name}-desc" '
        f'font-family="system-ui, sans-serif" font-size="13" data-left="{LEFT}" data-right="{RIGHT}" '
        f'data-top="{TOP}" data-bottom="{BOTTOM}" data-x-top="{x_top:.6g}" data-y-top="{y_top:.6g}">',
        f'<title id="{name}-title">{escape(title)}</title>',
        f'<desc id="{name}-desc">{escape(description)}</desc>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff" style="fill:var(--paper,#fff)"/>',
        '<g stroke="#ddd" style="stroke:var(--grid,#ddd)">',
        *(f'<path d="M{px(x):.1f} {TOP}V{BOTTOM}"/>' for x in ticks(x_top)),
        *(f'<path d="M{LEFT} {py(y):.1f}H{RIGHT}"/>' for y in ticks(y_top, y_ticks)),
        "</g>",
        '<g fill="#555" style="fill:var(--soft,#555)" text-anchor="middle">',
        *(f'<text x="{px(x):.1f}" y="{BOTTOM + 20}">{x:g}</text>' for x in ticks(x_top)),
        f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 43}">{escape(labels[0])}</text>',
        f'<text class="y-label" transform="translate(15 {(TOP + BOTTOM) / 2}) rotate(-90)">{escape(labels[1])}</text>',
        "</g>",
        '<g fill="#555" style="fill:var(--soft,#555)" text-anchor="end">',
        *(f'<text x="{LEFT - 8}" y="{py(y) + 4.5:.1f}">{y_format(y)}</text>' for y in ticks(y_top, y_ticks)),
        "</g>",
    ]
    for number, line in enumerate(lines):
        points = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
        parts.append(
            f'<g class="run" data-run="{number}"><title>{escape(line.label)}</title>'
            f'<polyline {stroke(line.slot)} points="{points}"/></g>'
        )
    parts.append(
        f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="#555" style="stroke:var(--soft,#555)"/>'  # over the lines
    )
    if legend:
        parts += [_entry(number, line) for number, line in enumerate(lines)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _entry(number: int, line: Line, longest: int = 25) -> str:
    x = LEFT + (RIGHT - LEFT) / LEGEND_COLUMNS * (number % LEGEND_COLUMNS)
    y = BOTTOM + 68 + LEGEND_LINE * (number // LEGEND_COLUMNS)
    short = line.label if len(line.label) <= longest else line.label[: longest - 1] + "…"
    return (
        f'<g><title>{escape(line.label)}</title><path d="M{x:.0f} {y - 4.5}h28" {stroke(line.slot)}/>'
        f'<text x="{x + 36:.0f}" y="{y}" fill="#222" style="fill:var(--ink,#222)">{escape(short)}</text></g>'
    )
