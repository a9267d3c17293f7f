"""How the radii are spread: one small histogram per run, with the radius that no certificate can exceed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import Floats, proved
from smoothcert.report.measures.confidence import saturation
from smoothcert.report.plot import COLOURS, INK, WRONG, looks, new_figure, percent, run_styles, word
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.view import View
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report

MOST, BESIDE = 24, 3  # so many histograms, and so many side by side: nobody reads more of them


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


@looks()
def histogram_figure(runs: Sequence[Certificates], most: int = MOST) -> Figure:
    """A small histogram for each of the first runs that measured radii, all on the same axes.

    Correct answers have the colour of the run, wrong ones are grey on top of them.
    """
    shown = [i for i, c in enumerate(runs) if c.tested_radii is None][:most]
    if not shown:
        raise ConfigError(
            "histograms of radii need a run with radii of its own, found none: each tested some radii alone"
        )
    labels, styles = labels_of(runs), run_styles(runs)
    edges = radius_edges([runs[i] for i in shown])
    found = {i: radius_histogram(runs[i], edges) for i in shown}
    top = max(0.02, *(1.05 * histogram.top for histogram in found.values()))
    beside = min(len(shown), BESIDE)
    lines = -(-len(shown) // beside)
    figure, _ = new_figure(size=(2.8 * beside, 1.9 * lines))
    figure.clear()
    every = figure.subplots(lines, beside, squeeze=False, sharex=True, sharey=True).flatten()
    told = []
    for axes, (i, histogram) in zip(every, found.items(), strict=False):
        _bars(axes, histogram, COLOURS[styles[i].colour])
        axes.set_title(labels[i], fontsize="small", loc="left", wrap=True)
        told.append(_words(histogram, labels[i]))
    for axes in every[len(shown) :]:
        axes.set_axis_off()
    for axes in every[max(len(shown) - beside, 0) :]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
    first = figure.axes[0]
    first.set(xlim=(0.0, float(edges[-1])), ylim=(0.0, top))
    percent(first.yaxis)
    figure.supxlabel("radius", fontsize="medium")
    figure.set_label(f"{'; '.join(told)}.")
    return figure


def _bars(axes: Axes, h: Histogram, colour: str) -> None:
    axes.stairs(h.correct, h.edges, fill=True, color=colour, linewidth=0)
    axes.stairs(
        h.correct + h.wrong, h.edges, baseline=h.correct, fill=True, color=WRONG, linewidth=0
    )
    if h.saturation is not None:
        axes.axvline(h.saturation, color=INK, linewidth=0.8, linestyle="--")
        text, top = f"saturation {h.saturation:.3f}", ("data", "axes fraction")
        word(axes, text, (h.saturation, 1), (-2, -1), xycoords=top, ha="right", va="top")


def _words(h: Histogram, label: str) -> str:
    word, wrong = (
        ("correct", f", {in_percent(h.wrong.sum())} % wrong") if h.labelled else ("answered", "")
    )
    text = (
        f"Radii of {label}: {in_percent(h.correct.sum(), h.proved)} % of the inputs {word}{wrong}"
    )
    if h.saturation is not None:
        full = in_percent(h.saturated, h.proved)
        text += f", {full} % {word} at the saturation radius {h.saturation:.3f}"
    return text


def _how(report: Report) -> str:
    measured = sum(c.tested_radii is None for c in report.runs)
    text = "Share of the inputs by radius"
    if report.labelled:
        text += ": correct answers in the colour of the run, wrong ones grey"
    text += "; abstentions have no radius."
    if any(saturation(c) is not None for c in report.runs):
        text += (
            " The dashed line is the *saturation radius*, reached when all n samples agree: only more samples could "
            "certify more there."
        )
    return text + f" The first {MOST} of {measured} runs." * (measured > MOST)


VIEW = View(
    "radii",
    "Radii",
    "how the radii of each run are spread",
    draw=lambda report: histogram_figure(report.runs),
    how=_how,
)
