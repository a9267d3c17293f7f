"""How the radii are spread: one small histogram per run, with the radius that no certificate can exceed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from smoothcert.report.charts.line_styles import LineStyle
from smoothcert.report.charts.svg import Frame, drawing, fill, percent
from smoothcert.report.measures.analysis import Floats, proved
from smoothcert.report.measures.confidence import saturation
from smoothcert.report.read.certificates import Certificates
from smoothcert.statistics.printed import in_percent


@dataclass(frozen=True)
class Histogram:
    """Shares of all inputs with a radius in [edges[i], edges[i+1]), the last bin closed; abstentions are in no bin."""

    edges: Floats
    correct: Floats
    wrong: Floats
    saturation: float | None
    saturated: float  # share of the inputs that are correct with the saturation radius, to the digits of a log
    proved: bool = False
    labelled: bool = True  # else `correct` are all answers, and nothing is wrong

    @property
    def top(self) -> float:
        return float((self.correct + self.wrong).max())


def radius_edges(runs: Sequence[Certificates], bins: int = 32) -> Floats:
    """Common bins from 0 to just beyond the largest radius, or saturation radius, of any run."""
    ends = [max(float(c.radius.max()), saturation(c) or 0.0) for c in runs]
    return np.linspace(0.0, 1.02 * max(ends, default=0.0) or 1.0, bins + 1)


def radius_histogram(c: Certificates, edges: Floats) -> Histogram:
    answered = ~c.abstained
    correct, wrong = (
        np.histogram(c.radius[answered & side], edges)[0] / c.rows
        for side in (c.counted, ~c.counted)
    )
    limit = saturation(c)
    full = 0.0 if limit is None else float((c.counted & (c.radius >= 0.995 * limit)).mean())
    return Histogram(edges, correct, wrong, limit, full, proved([c]), c.labelled)


def histogram_svg(
    histogram: Histogram, label: str, style: LineStyle, y_top: float, name: str
) -> str:
    """Correct answers in the colour of the run, wrong ones grey on top of them."""
    h = histogram
    frame = Frame(
        (0.0, float(h.edges[-1])), (0.0, y_top), 340, 200, left=44, top=22, margin_bottom=44,
        margin_right=20, ticks=(6, 5), y_format=percent,  # a number may stand at the very end of the axis
    )  # fmt: skip
    bars = []
    for low, high, right, wrong in zip(h.edges, h.edges[1:], h.correct, h.wrong, strict=False):
        x, width = frame.px(low) + 0.5, frame.px(high) - frame.px(low) - 1
        for start, share, paint in ((0.0, right, fill(style)), (right, wrong, _GREY)):
            if share > 0:
                y, height = frame.py(start + share), frame.py(start) - frame.py(start + share)
                bars.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {paint}/>'
                )
    inside = [f"<g><title>{escape(label)}</title>", *bars, "</g>"]
    word, wrong = (
        ("correct", f", {in_percent(h.wrong.sum())} % wrong") if h.labelled else ("answered", "")
    )
    text = (
        f"Radii of {label}: {in_percent(h.correct.sum(), h.proved)} % of the inputs {word}{wrong}"
    )
    if h.saturation is not None:
        x = frame.px(h.saturation)
        inside.append(
            f'<path class="limit" d="M{x:.1f} {frame.top - 4}V{frame.bottom}" stroke="#555" '
            'style="stroke:var(--ink,#222)" stroke-dasharray="4 3"/>'
            f'<text x="{x + 3:.1f}" y="{frame.top - 8}" text-anchor="end" font-size="12" fill="#555" '
            f'style="fill:var(--ink,#222)">saturation {h.saturation:.3f}</text>'
        )
        full = in_percent(h.saturated, h.proved)
        text += f"; {full} % {word} at the saturation radius {h.saturation:.3f}"
    return drawing(
        frame, inside, title=label, description=f"{text}.", labels=("radius", ""), name=name
    )


_GREY = 'fill="#aaa" style="fill:var(--wrong,#aaa)"'
