"""The upper envelope of the curves of each group of runs, and below it which run is the best at which radii."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.curves import axis_top, radius_label
from smoothcert.report.measures.envelope import (
    EnvelopeCurve,
    envelope_curve,
)
from smoothcert.report.measures.groups import Group, Grouping, groups_of, lacking_sigmas
from smoothcert.report.measures.same_data import require_same_data
from smoothcert.report.plot import (
    COLOURS,
    PAPER,
    LineStyle,
    legend,
    line,
    looks,
    new_figure,
    percent,
    styles_of,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import (
    drawn_labels,
    one_line,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WIDTH, _BAR = 5.5, 0.32  # inches: of the figure, and the height of a bar with its name
_SIZES = {"x-small": 0.06, "xx-small": 0.05}  # inches: the width of a letter in a bar


@looks()
def envelope_figure(
    results: Sequence[Certificates], by: Grouping = "method", rounded: bool = False
) -> Figure:
    """One curve per group. Runs without labels, and those that tested only some radii, have no part in it.

    A picture has no notes: the name of a group says which sigmas it lacks that others have. Where a group has several
    runs, a bar below the axis shows at which radii each of them is the best.
    """
    runs = [c for c in results if c.labelled and c.tested_radii is None]
    norms = {c.norm for c in runs}
    if len(norms) > 1:
        raise ConfigError(
            f"an envelope needs radii in one norm, found {' and '.join(sorted(norms))}: draw them apart"
        )
    groups = groups_of(runs, by)
    for group in groups:
        require_same_data([runs[i] for i in group.runs], f"the best run of {group.name}")
    lacking = lacking_sigmas(runs, groups, by)
    curves = [envelope_curve([runs[i] for i in group.runs], rounded) for group in groups]
    known = [
        (group, _name(group, sigmas), curve)
        for group, sigmas, curve in zip(groups, lacking, curves, strict=True)
        if curve is not None
    ]
    if not known:
        raise ConfigError(
            "an envelope needs a run with labels, with radii of its own and a correct answer, found none"
        )
    bars = any(len(group.runs) > 1 for group, _, _ in known)
    figure, axes, below = _axes(len(known) if bars else 0)
    told = []
    styles = styles_of([group.key for group, _, _ in known])
    for place, ((group, name, curve), style) in enumerate(zip(known, styles, strict=True)):
        line(axes, *_corners(curve), name, style, place)
        stretches = _named([runs[i] for i in group.runs], curve)
        if below is not None:
            _bar(below, place, name, style, stretches)
        ends = (f"{text} from {start:.3g} to {end:.3g}" for text, start, end in stretches)
        told.append(f"{name}: {', '.join(ends)}")
    right, top = axis_top(runs)
    axes.set(xlim=(0.0, right), ylim=(0.0, top), xlabel=radius_label(runs, rounded))
    axes.set_ylabel("certified accuracy of the best run")
    percent(axes.yaxis)
    if below is None:
        legend(figure)
    else:
        below.set(xlim=(0.0, right), ylim=(len(known), 0))
    figure.set_label(
        "Upper envelopes: the largest certified accuracy of any run of a group, at each radius. "
        f"Best runs: {'; '.join(told)}."
    )
    return figure


def _name(group: Group, lacking: Sequence[float]) -> str:
    return group.name + f" (no σ={', '.join(f'{sigma:g}' for sigma in lacking)})" * bool(lacking)


def _corners(curve: EnvelopeCurve) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(curve.radii, 2), np.append(np.repeat(curve.accuracy, 2)[1:], 0.0)


def _named(own: Sequence[Certificates], curve: EnvelopeCurve) -> list[tuple[str, float, float]]:
    """Which run is the best from where to where; by sigma alone, if only that tells the runs of a group apart."""
    labels = drawn_labels(own)
    if len({c.name for c in own}) == 1 and len({c.sigma for c in own}) == len(own):
        labels = [one_line(own[0].name) if c.sigma is None else f"σ={c.sigma:g}" for c in own]
    return [(labels[stretch.run], stretch.start, stretch.end) for stretch in curve.stretches]


def _axes(bars: int) -> tuple[Figure, Axes, Axes | None]:
    if not bars:
        figure, (axes,) = new_figure()
        return figure, axes, None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, 3.4 + _BAR * bars), layout="constrained")
    axes, below = figure.subplots(2, 1, gridspec_kw={"height_ratios": (3.4, _BAR * bars)})
    below.axis("off")
    return figure, axes, below


def _bar(
    axes: Axes,
    place: int,
    name: str,
    style: LineStyle,
    stretches: Sequence[tuple[str, float, float]],
) -> None:
    """The stretches of a group, below its name and its line, which stand in place of a legend."""
    right = stretches[-1][2]
    line(axes, np.array([0, 0.05 * right]), np.full(2, place + 0.22), name, style, place)
    axes.text(0.06 * right, place + 0.22, name, fontsize="x-small", va="center")
    inch = right / (0.85 * _WIDTH)
    for text, start, end in stretches:
        fill: dict[str, Any] = {
            "facecolor": (COLOURS[style.colour], 0.22),
            "edgecolor": PAPER,
            "linewidth": 1,
        }
        axes.broken_barh([(start, end - start)], (place + 0.45, 0.45), **fill)
        fits = (size for size, letter in _SIZES.items() if len(text) * letter * inch < end - start)
        if size := next(fits, None):
            middle = (start + end) / 2
            axes.text(middle, place + 0.69, text, fontsize=size, ha="center", va="center")
