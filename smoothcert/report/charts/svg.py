"""Charts as SVG: alone in a README, or inlined in a page that sets the colours by CSS variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from smoothcert.report.charts.line_styles import COLOURS, DASHES, LineStyle

# pixels: the height of a line in a legend, and the usual width of a letter
LEGEND_LINE, LETTER = 22, 7
# pixels: the width of a key in a legend, and the height of a line beside the axis
KEY, LABEL_LINE = 38, 16
BAND = 0.15  # opacity of the area around a line


@dataclass(frozen=True)
class Line:
    """One polyline, or (`dots`) its points alone; by `run`, a place in the report, the page shows and hides it.

    `marker` draws the points on the line too, `full` or `hollow`, or (`marked`) those at these places alone.
    `band` is how far the values may lie below and above: an area around the line, or a bar through each point.
    """

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: LineStyle
    run: int
    dots: bool = False
    band: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    marker: Literal["", "full", "hollow"] = ""
    marked: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Frame:
    """Where a chart is drawn: the data box `x` times `y`, and the pixels it is mapped to."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = 720
    height: int = 384
    left: int = 64
    top: int = 16
    margin_right: int = 16
    margin_bottom: int = 54
    ticks: tuple[int, int] = (9, 7)  # at most this many along each axis
    y_format: Callable[[float], str] = "{:g}".format
    x_format: Callable[[float], str] = "{:g}".format

    @property
    def right(self) -> int:
        return self.width - self.margin_right

    @property
    def bottom(self) -> int:
        return self.height - self.margin_bottom

    def px(self, x: float) -> float:
        return self.left + (self.right - self.left) * (x - self.x[0]) / (self.x[1] - self.x[0])

    def py(self, y: float) -> float:
        return self.bottom - (self.bottom - self.top) * (y - self.y[0]) / (self.y[1] - self.y[0])


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def shortened(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def stroke(style: LineStyle) -> str:
    """Colour and dashes: attributes for every viewer, the CSS variable for those that know it."""
    colour, dash = COLOURS[style.colour], DASHES[style.dash]
    return (
        f'fill="none" stroke="{colour}" style="stroke:var(--run-{style.colour},{colour})" '
        f'stroke-width="2" stroke-linejoin="round"'
        + (f' stroke-dasharray="{dash}"' if dash else "")
    )


def fill(style: LineStyle) -> str:
    colour = COLOURS[style.colour]
    return f'fill="{colour}" style="fill:var(--run-{style.colour},{colour})"'


def ticks(top: float, most: int = 9, start: float = 0.0) -> list[float]:
    """Round numbers from `start` up to `top`: multiples of 1, 2, 2.5 or 5 times a power of ten."""
    span = top - start
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(
        s for s in (power, 2 * power, 2.5 * power, 5 * power, 10 * power) if span / s < most
    )
    first, last = math.ceil(start / step - 1e-9), math.floor(top / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def drawing(
    frame: Frame,
    inside: Sequence[str],
    *,
    title: str,
    description: str,
    labels: tuple[str, str],
    name: str,
) -> str:
    """A whole SVG: paper, grid and axes around what is drawn inside; `name` makes its ids unique in a page."""
    f = frame
    x_ticks, y_ticks = ticks(f.x[1], f.ticks[0], f.x[0]), ticks(f.y[1], f.ticks[1], f.y[0])
    box = (
        f'data-left="{f.left}" data-right="{f.right}" data-top="{f.top}" data-bottom="{f.bottom}" '
        f'data-x-start="{f.x[0]:.6g}" data-x-top="{f.x[1]:.6g}" data-y-top="{f.y[1]:.6g}"'
    )
    base = f.py(0.0) if f.y[0] < 0 < f.y[1] else f.bottom
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="smoothcert-chart" viewBox="0 0 {f.width} {f.height}" '
        f'width="{f.width}" height="{f.height}" role="img" aria-labelledby="{name}-title {name}-desc" '
        f'font-family="system-ui, sans-serif" font-size="13" {box}>',
        f'<title id="{name}-title">{escape(title)}</title>',
        f'<desc id="{name}-desc">{escape(description)}</desc>',
        f'<rect width="{f.width}" height="{f.height}" fill="#fff" style="fill:var(--paper,#fff)"/>',
        '<g stroke="#ddd" style="stroke:var(--grid,#ddd)">',
        *(f'<path d="M{f.px(x):.1f} {f.top}V{f.bottom}"/>' for x in x_ticks),
        *(f'<path d="M{f.left} {f.py(y):.1f}H{f.right}"/>' for y in y_ticks),
        "</g>",
        '<g fill="#555" style="fill:var(--soft,#555)" text-anchor="middle">',
        *(f'<text x="{f.px(x):.1f}" y="{f.bottom + 20}">{f.x_format(x)}</text>' for x in x_ticks),
    ]
    if labels[0]:
        parts.append(
            f'<text x="{(f.left + f.right) / 2}" y="{f.bottom + 43}">{escape(labels[0])}</text>'
        )
    for number, line in enumerate(labels[1].splitlines()):
        middle = f"translate({15 + LABEL_LINE * number} {(f.top + f.bottom) / 2}) rotate(-90)"
        parts.append(f'<text class="y-label" transform="{middle}">{escape(line)}</text>')
    parts += [
        "</g>",
        '<g fill="#555" style="fill:var(--soft,#555)" text-anchor="end">',
        *(
            f'<text x="{f.left - 8}" y="{f.py(y) + 4.5:.1f}">{f.y_format(y)}</text>'
            for y in y_ticks
        ),
        "</g>",
        *inside,
        # over the lines, at 0 if that is inside
        f'<path d="M{f.left} {base:g}H{f.right}" stroke="#555" style="stroke:var(--soft,#555)"/>',
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def line_chart(
    lines: Sequence[Line],
    frame: Frame,
    *,
    title: str,
    description: str,
    labels: tuple[str, str],
    legend: bool = True,
    name: str = "chart",
    more: Sequence[str] = (),
    below: int = 0,
) -> str:
    """Draw the lines, with a legend below them unless the page around the chart has one.

    `more` is drawn over them, and `below` is how many pixels it needs under the axis.
    """
    inside = [
        f'<g class="run" data-run="{line.run}"><title>{escape(line.label)}</title>'
        f"{_band(frame, line)}{_drawn(frame, line)}</g>"
        for line in lines
    ] + list(more)
    if legend:
        fitting = (frame.right - frame.left - KEY) // LETTER  # in one column
        longest = min(max([25, *(len(line.label) for line in lines)]), fitting)
        inside += legend_entries(frame, lines, longest)
        below += legend_height(frame, lines, longest)
    frame = replace(frame, height=frame.height + below, margin_bottom=frame.margin_bottom + below)
    return drawing(frame, inside, title=title, description=description, labels=labels, name=name)


def legend_entries(frame: Frame, lines: Sequence[Line], longest: int) -> list[str]:
    """A key and a name of at most `longest` letters for each line, in columns below the axis of the frame."""
    columns = _columns(frame, longest)
    return [
        _entry(frame, divmod(number, columns), columns, line, longest)
        for number, line in enumerate(lines)
    ]


def legend_height(frame: Frame, lines: Sequence[Line], longest: int) -> int:
    return LEGEND_LINE * math.ceil(len(lines) / _columns(frame, longest))


def _columns(frame: Frame, longest: int) -> int:
    return max((frame.right - frame.left) // (LETTER * longest + KEY), 1)


def _drawn(frame: Frame, line: Line) -> str:
    places = [
        (f"{frame.px(x):.1f}", f"{frame.py(y):.1f}") for x, y in zip(line.x, line.y, strict=True)
    ]
    if line.dots:
        return "".join(f'<circle cx="{x}" cy="{y}" r="4" {fill(line.style)}/>' for x, y in places)
    chosen = places if line.marked is None else [places[i] for i in line.marked]
    circles = "".join(
        f'<circle cx="{x}" cy="{y}" {_marker(line)}/>' for x, y in chosen if line.marker
    )
    return f'<polyline {stroke(line.style)} points="{" ".join(map(",".join, places))}"/>{circles}'


def _marker(line: Line) -> str:
    """A point, or a ring around where a point would be: both can be seen at one place."""
    return (
        f'r="4" {fill(line.style)}'
        if line.marker == "full"
        else f'r="6" {stroke(replace(line.style, dash=0))}'
    )


def _band(frame: Frame, line: Line) -> str:
    if line.band is None:
        return ""
    x = [f"{frame.px(value):.1f}" for value in line.x.tolist()]
    low, high = ([f"{frame.py(value):.1f}" for value in end.tolist()] for end in line.band)
    if line.dots:
        bars = (f"M{place} {a}V{b}" for place, a, b in zip(x, low, high, strict=True))
        return f'<path {stroke(line.style)} d="{"".join(bars)}"/>'
    around = [*zip(x, high, strict=True), *reversed(list(zip(x, low, strict=True)))]
    return f'<polygon {fill(line.style)} fill-opacity="{BAND}" points="{" ".join(map(",".join, around))}"/>'


def _entry(frame: Frame, place: tuple[int, int], columns: int, line: Line, longest: int) -> str:
    x = frame.left + (frame.right - frame.left) / columns * place[1]
    y = frame.bottom + 68 + LEGEND_LINE * place[0]
    short = shortened(line.label, longest)
    dot = f'<circle cx="{x + 14:.0f}" cy="{y - 4.5}" r="4" {fill(line.style)}/>'
    key = dot if line.dots else f'<path d="M{x:.0f} {y - 4.5}h28" {stroke(line.style)}/>'
    key += f'<circle cx="{x + 14:.0f}" cy="{y - 4.5}" {_marker(line)}/>' if line.marker else ""
    return (
        f"<g><title>{escape(line.label)}</title>{key}"
        f'<text x="{x + 36:.0f}" y="{y}" fill="#222" style="fill:var(--ink,#222)">{escape(short)}</text></g>'
    )
