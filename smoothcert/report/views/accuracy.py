"""ACR, abstentions and certified accuracy by radius: the main table, and the curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.certificate_table import certificate_table, with_budget
from smoothcert.report.curves import (
    answered,
    axis_top,
    curve_name,
    radius_label,
    reading,
    step_corners,
)
from smoothcert.report.measures.analysis import (
    average_certified_radius,
    average_radius,
    curve_values,
    proved,
)
from smoothcert.report.measures.published_comparison import (
    find_published,
)
from smoothcert.report.measures.same_data import comparable
from smoothcert.report.plot import Marker, legend, line, looks, new_figure, percent, run_styles
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import (
    drawn_labels,
    norm_names,
)
from smoothcert.report.table import Table
from smoothcert.report.view import Reading, View
from smoothcert.statistics.printed import doubt, in_percent, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report


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
        f"{shown.capitalize()}. Share of inputs {answered(runs)} with a certified radius of at least r. {summary}."
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


def _tables(report: Report) -> list[Table]:
    """The main one, and the shares of runs without labels where others have some: the main table has them not."""
    chosen = report.options.radii, report.options.rounded, report.options.intervals
    main = certificate_table(report.runs, *chosen)
    if report.on_page:
        main = with_budget(main, report.runs)
    found = [replace(main, caption="Certified accuracy")]
    bare = [c for c in report.runs if not c.labelled]
    if bare and report.labelled:
        shares = "Certified shares of the runs without labels"
        found.append(replace(certificate_table(bare, *chosen), caption=shares))
    return found


def _draw(report: Report) -> Figure:
    return accuracy_figure(report.runs, rounded=report.options.rounded)


def _reading(report: Report, most: int = 400) -> Reading:
    runs, rounded = report.runs, report.options.rounded
    coarser = cycle((2, 2.5, 2))  # steps of 0.01, 0.02, 0.05, 0.1, ...
    top, density = axis_top(runs)[0], 100.0
    while top * density > most:
        density /= next(coarser)
    # Divided, not multiplied by a step: 0.35 must be the double nearest to 0.35, or a tie there would be lost.
    radii = np.arange(int(top * density) + 1) / density
    start = int(np.searchsorted(radii[:-1], min(0.5, top / 2)))
    every, down = range(len(runs)), proved(runs, rounded)
    return reading(
        radii, start, "r", 2, every, lambda i: curve_values(runs[i], radii, rounded), down
    )


def _how(report: Report) -> str:
    runs, norms = report.runs, norm_names(c.norm for c in report.runs)
    if not report.labelled:
        text = (
            "The inputs have no labels, so that nothing here says which answers are right. *Certified share at r* is "
            "the share of inputs with an answer that is proved not to change by any change of the input smaller than "
            f"r in {norms} norm. The *mean radius* is over all inputs, with 0 for abstentions: the area under the "
            "curve. It"
        )
    else:
        text = (
            "*Certified accuracy at r* is the share of inputs that are classified correctly with a proof that no "
            f"change of the input smaller than r in {norms} norm alters the answer; at r = 0 it is the accuracy of "
            "the smoothed classifier, abstentions counted as errors. *ACR*, the average certified radius, is the mean "
            "radius over all inputs, with 0 for errors and abstentions: the area under the curve. It"
        )
    text += (
        " rewards a few very large radii and depends on the number n of noise samples, so that it should not decide "
        "alone. σ and radii are in units of images whose pixels lie in [0, 1]. Each proof may fail with the "
        "probability α of its run"
    )
    if any(c.identity.get("simultaneous") for c in runs):
        text += "; where α is for all inputs together, they hold all at once with probability 1 − α"
    text += "."
    if len(runs) > 1 and comparable(runs):
        text += " Bold: the best value of a column among complete runs."
    if any(doubt(c.noise) for c in runs):
        text += " Float noise gives estimates of such proofs, which are not formally sound."
    if report.options.intervals:
        text += (
            " In brackets: 95 % intervals over the choice of inputs, exact for shares (Clopper-Pearson), by the "
            "bootstrap for mean radii; they say nothing of the luck of training."
        )
    if any(find_published(c) for c in runs):
        text += (
            " *Published* is what the papers print for the same settings: a single run, or mean ± standard deviation "
            "over seeds. The difference to it is in such standard deviations (s.d.) where they are known, and taken "
            "with radii rounded to 3 significant digits, as theirs are."
        )
    return text


VIEW = View(
    "accuracy",
    "Results",
    "ACR, abstentions and certified accuracy by radius",
    _tables,
    _draw,
    _how,
    unasked=lambda report: True,
    reading=_reading,
)
