"""Certified accuracy as a function of the radius, and confidence as a function of p, as falling curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import (
    Floats,
    average_certified_radius,
    average_radius,
    certified_curve,
    curve_values,
    proved,
)
from smoothcert.report.measures.confidence import has_confidence, p_curve, p_ecdf
from smoothcert.report.plot import Marker, legend, line, looks, new_figure, percent, run_styles
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import drawn_labels, norm_names
from smoothcert.statistics.printed import in_percent, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@looks()
def accuracy_figure(runs: Sequence[Certificates], *, rounded: bool = False) -> Figure:
    """The certified-accuracy curves of the runs, or those of certified shares where there are no labels."""
    if not runs:
        raise ConfigError("a figure needs at least one run, found none")
    labels, shown = drawn_labels(runs), curve_name(runs)
    figure, (axes,) = new_figure()
    for place, (label, c, style) in enumerate(zip(labels, runs, run_styles(runs), strict=True)):
        marker: Marker = "" if c.tested_radii is None else "dots"
        line(axes, *step_corners(c, rounded), label, style, place, marker=marker)
    right, top = axis_top(runs)
    axes.set(xlim=(0.0, right), ylim=(0.0, top), xlabel=radius_label(runs, rounded), ylabel=shown)
    percent(axes.yaxis)
    legend(figure)
    summary = "; ".join(
        f"{label}: {_summary(c, rounded, proved(runs, rounded))}"
        for label, c in zip(labels, runs, strict=True)
    )
    figure.set_label(
        f"{shown.capitalize()}. Share of inputs {_answered(runs)} with a certified radius of at least r. {summary}."
    )
    return figure


def curve_name(runs: Sequence[Certificates]) -> str:
    """What the curves of the runs are."""
    if len({c.labelled for c in runs}) > 1:
        raise ConfigError(
            "runs with labels and runs without have no curves in common: draw them apart"
        )
    return "certified accuracy" if runs[0].labelled else "certified share"


def radius_label(runs: Sequence[Certificates], rounded: bool) -> str:
    """What an axis of radii shows. Rounded radii may be above the proved ones, so that it says where they are."""
    what = "ℓ₂ radii " if any(c.dimension for c in runs) else ""
    return f"radius r ({norm_names(c.norm for c in runs)}{f', {what}rounded to 3 digits' if rounded else ''})"


def _answered(runs: Sequence[Certificates]) -> str:
    return "classified correctly" if runs[0].labelled else "answered, right or wrong,"


@looks()
def confidence_figure(runs: Sequence[Certificates]) -> Figure | None:
    """P(p_A >= p) of the runs whose p_A is known, from p = 1/2 to 1; None if there is none."""
    labels, styles = drawn_labels(runs), run_styles(runs)
    known = [place for place, c in enumerate(runs) if has_confidence(c)]
    if not known:
        return None
    curve_name([runs[place] for place in known])  # refuses those with labels beside those without
    figure, (axes,) = new_figure()
    for i in known:
        line(axes, *p_curve(runs[i]), labels[i], styles[i], i)
    answered = "correct" if runs[0].labelled else "answered"
    top = axis_top([runs[place] for place in known])[1]
    axes.set(xlim=(0.5, 1.0), ylim=(0.0, top), xlabel="confidence p")
    axes.set_ylabel(f"{answered} with confidence ≥ p")
    percent(axes.yaxis)
    legend(figure)
    summary = "; ".join(
        f"{labels[i]}: {in_percent(float(p_ecdf(runs[i], 0.99)), proved(runs))} % have p of at least 0.99"
        for i in known
    )
    figure.set_label(
        f"Confidence. Share of inputs {_answered(runs)} with a lower bound of p_A of at least p. {summary}."
    )
    return figure


def _summary(c: Certificates, rounded: bool, down: bool) -> str:
    shares = zip(*step_corners(c, rounded), strict=True)
    if c.tested_radii is not None:
        return ", ".join(f"{in_percent(share, down)} % at radius {r:g}" for r, share in shares)
    clean = f"{in_percent(next(shares)[1], down)} % at radius 0"
    if not c.labelled:
        return f"{clean}, mean radius {number(average_radius(c, rounded), 3, down)}"
    acr = number(average_certified_radius(c, rounded), 3, down)
    return f"{clean}, average certified radius {acr}"


def axis_top(runs: Sequence[Certificates]) -> tuple[float, float]:
    """The end of both axes: just beyond the largest certified radius, and the next 10 % above the accuracies."""
    radius = max(
        max(float(c.radius[c.counted].max(initial=0.0)), *(c.tested_radii or ()), 0.0) for c in runs
    )
    share = max(float(c.counted.mean()) for c in runs)
    return 1.02 * radius or 1.0, max(math.ceil(10 * share - 1e-9) / 10, 0.1)


def step_corners(c: Certificates, rounded: bool = False) -> tuple[Floats, Floats]:
    """The corners of the curve from left to right: each certified radius at both ends of its drop, then 0.

    Where only some radii were tested there is no curve, but a point at each of them.
    """
    if c.tested_radii is not None:
        return np.array(c.tested_radii), curve_values(c, c.tested_radii, rounded)
    radii, share = certified_curve(c, rounded)
    return np.repeat(radii, 2), np.append(np.repeat(share, 2)[1:], 0.0)
