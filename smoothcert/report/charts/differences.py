"""Certified accuracy of each run minus that of a reference, over the radius."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.charts.curves import axis_top, radius_label
from smoothcert.report.measures.analysis import Floats, correct_radii
from smoothcert.report.measures.bootstrap import paired_curve
from smoothcert.report.measures.pairing import Pair, nothing_to_compare, paired, rounding_needed
from smoothcert.report.plot import (
    SOFT,
    Marker,
    legend,
    line,
    looks,
    new_figure,
    run_styles,
    shortened,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import drawn_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 201  # of a line, beside its last steps
LETTERS, LINE = (
    10,
    20,
)  # of the reference's name beside the axis: after other words, and in lines of its own


@looks()
def difference_figure(
    results: Sequence[Certificates],
    reference: int,
    rounded: bool = False,
    *,
    seed: int = 0,
    most: int | None = None,
) -> Figure:
    """A line for each run that can be compared with the reference (`paired`), with its 95 % band (`paired_curve`).

    Of many runs the first `most` are drawn. Where only some radii were tested by either, there is a point with a bar
    at each radius that both know. All radii are rounded where some are.
    """
    pairs = paired(results, reference)[0][:most]
    if not pairs:
        raise ConfigError(nothing_to_compare(results, reference))
    rounded = rounded or rounding_needed(pairs)
    labels, styles = drawn_labels(results), run_styles(results)
    compared = [results[reference], *(results[pair.place] for pair in pairs)]
    right, name = axis_top(compared)[0], labels[reference]
    figure, (axes,) = new_figure()
    ends, told = [0.0], []
    for pair in pairs:
        dots = pair.tested is not None
        radii = np.array(pair.tested) if dots else _grid(pair, right, rounded)
        rng = np.random.default_rng(seed)
        value, low, high = paired_curve(pair.run, pair.reference, rng, radii, rounded=rounded)
        label = labels[pair.place]
        marker: Marker = "dots" if dots else ""
        style = styles[pair.place]
        line(axes, radii, value, label, style, pair.place, marker=marker, band=(low, high))
        ends += [low.min(), high.max()]
        told.append(
            f"{label}: from {_points(value.min())} to {_points(value.max())} percentage points"
        )
    room = 0.06 * (max(ends) - min(ends)) or 0.01
    axes.set(xlim=(0.0, right), ylim=(min(ends) - room, max(ends) + room))
    axes.set(xlabel=radius_label(compared, rounded), ylabel=_above(name))
    axes.axhline(0.0, color=SOFT, linewidth=0.8)
    axes.yaxis.set_major_formatter(lambda share, _: _points(share))
    legend(figure)
    figure.set_label(
        f"Certified accuracy minus that of {name}, on the inputs that both have, with 95 % bands of the paired "
        f"bootstrap, each radius for itself. {'; '.join(told)}."
    )
    return figure


def _above(name: str) -> str:
    """What the axis of differences shows; a longer name of the reference has lines of its own, and may be cut."""
    words = "percentage points above"
    if len(name) <= LETTERS:
        return f"{words} {name}"
    lines = textwrap.wrap(
        shortened(name, 2 * LINE).replace("/", "/ "), LINE
    )  # a path may be broken at its slashes
    return "\n".join([words, *(line.replace("/ ", "/") for line in lines)])


def _grid(pair: Pair, right: float, rounded: bool) -> Floats:
    """Evenly spaced radii, and both sides of the steps at which a curve ends: these may be large, and are vertical."""
    ends = [correct_radii(c, rounded)[-1:] for c in (pair.run, pair.reference)]
    steps = [side for end in ends for side in (end, np.nextafter(end, np.inf))]
    return np.unique(np.concatenate([np.linspace(0.0, right, POINTS), *steps]))


def _points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    points = round(100 * share, 2) + 0.0
    return f"{points:+g}" if points else "0"
