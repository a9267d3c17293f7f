"""Certified accuracy from below and accuracy under attack from above: the true one lies between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.progress import noun
from smoothcert.report.measures.analysis import Floats
from smoothcert.report.measures.attack_curves import AttackCurve, Family
from smoothcert.report.measures.shared_inputs import data_of
from smoothcert.report.plot import (
    COLOURS,
    DASHES,
    LineStyle,
    legend,
    line,
    looks,
    new_figure,
    percent,
    run_styles,
)
from smoothcert.report.read.names import doubted, norm_names
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@looks()
def attack_figure(families: Sequence[Family], first_run: int = 0) -> Figure:
    """The certified curve of each family, and a line for each kind of attack on it.

    What an attack leaves at a radius bounds the accuracy from there on, so the line stays level up to the next radius.
    Points on it are the radii that were attacked.
    A page that shows and hides its runs numbers the lines from `first_run` on, so that these stay.
    """
    figure, (axes,) = new_figure()
    run, largest = count(first_run), 0.0
    end = 1.02 * max(float(radii.max(initial=0.0)) for f in families for radii in _radii(f)) or 1.0
    styles = run_styles([family.models[0] for family in families])
    for family, style in zip(families, styles, strict=True):
        name = doubted(family.name, *family.models)
        radii, share = family.certified
        largest = max(largest, float(share.max(initial=0.0)))
        if not family.dots:  # both ends of each drop, the last to 0
            radii, share = np.repeat(radii, 2), np.append(np.repeat(share, 2)[1:], 0.0)
        label = f"{name}: certified, {_counted(family)}"
        line(axes, radii, share, label, style, next(run), marker="dots" if family.dots else "")
        one_colour = len(families) > 1 or len(family.curves) == 1
        for place, curve in enumerate(family.curves, start=1):
            colour = style.colour if one_colour else (style.colour + place) % len(COLOURS)
            label = f"{name}: " * (len(families) > 1) + curve.label
            drawn = LineStyle(colour, place % len(DASHES))
            x, y = np.append(np.repeat(curve.radii, 2)[1:], end), np.repeat(curve.accuracy, 2)
            own = [2 * i for i, r in enumerate(curve.radii.tolist()) if r in curve.attacked]
            line(axes, x, y, label, drawn, next(run), marker="full", marked=own)
            largest = max(largest, float(y.max(initial=0.0)))
    top = max(math.ceil(10 * largest - 1e-9) / 10, 0.1)
    axes.set(xlim=(0.0, end), ylim=(0.0, top))
    axes.set(xlabel=f"radius r ({norm_names(['l2'])})", ylabel="accuracy")
    percent(axes.yaxis)
    legend(figure)
    names = ", ".join(doubted(family.name, *family.models) for family in families)
    figure.set_label(
        f"Certified and empirical accuracy of {names}. "
        "Certified accuracy is proved from below, accuracy under attack bounds it from above, both on "
        f"{_inputs(families)}. An attack takes m noises and T steps, PREDICT n samples at α. "
        "Points are the radii that were attacked. "
        "A bound holds for all larger radii too, also beyond the largest that was attacked. "
        f"{'; '.join(map(_summary, families))}."
        + "".join(f" Note: {note}." for family in families for note in family.notes)
    )
    return figure


def _counted(family: Family) -> str:
    """How many inputs it is about: as many as all families on its data set."""
    inputs = family.models[0].rows
    return f"{inputs} {noun(inputs, 'input')}"


def _inputs(families: Sequence[Family]) -> str:
    by_data = {data_of(family.models[0]): _counted(family) for family in families}
    if len(by_data) == 1:
        return _counted(families[0])
    return " and ".join(f"{counted} of {' '.join(data)}" for data, counted in by_data.items())


def _summary(family: Family) -> str:
    def told(curve: AttackCurve) -> str:
        points = zip(curve.radii.tolist(), curve.accuracy.tolist(), strict=True)
        return f"{curve.label}: " + ", ".join(
            f"{in_percent(share)} % at {radius:g}" for radius, share in points
        )

    models = len(family.models)
    best = f", the best certified of {models} models at each radius" if models > 1 else ""
    return f"{family.name}{best}: " + "; ".join(map(told, family.curves))


def _radii(family: Family) -> list[Floats]:
    return [family.certified[0], *(curve.radii for curve in family.curves)]
