"""Certified accuracy of each run minus that of a reference, over the radius."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.charts.chart import Chart
from smoothcert.report.charts.curves import axis_top, radius_label
from smoothcert.report.charts.line_styles import run_styles
from smoothcert.report.charts.svg import LABEL_LINE, Frame, Line, shortened
from smoothcert.report.measures.analysis import Floats, correct_radii
from smoothcert.report.measures.bootstrap import paired_curve
from smoothcert.report.measures.pairing import Pair, nothing_to_compare, paired, rounding_needed
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import drawn_labels

POINTS = 201  # of a line, beside its last steps
# of the reference's name beside the axis: after other words, and in lines of its own
LETTERS, LINE = 10, 20


def difference_chart(
    results: Sequence[Certificates],
    reference: int,
    rounded: bool = False,
    *,
    seed: int = 0,
    most: int | None = None,
) -> Chart:
    """A line for each run that can be compared with the reference (`paired`), with its 95 % band (`paired_curve`).

    Of many runs the first `most` are drawn. Where only some radii were tested by either, there is a point with a bar
    at each radius that both know. All radii are rounded where some are.
    """
    pairs = paired(results, reference)[0][:most]
    rounded = rounded or rounding_needed(pairs)
    labels, styles = drawn_labels(results), run_styles(results)
    compared = [results[reference], *(results[pair.place] for pair in pairs)]
    right = axis_top(compared)[0]
    lines = []
    for pair in pairs:
        dots = pair.tested is not None
        radii = np.array(pair.tested) if dots else _grid(pair, right, rounded)
        rng = np.random.default_rng(seed)
        value, low, high = paired_curve(pair.run, pair.reference, rng, radii, rounded=rounded)
        lines.append(
            Line(
                labels[pair.place], radii, value, styles[pair.place], pair.place, dots, (low, high)
            )
        )
    if not lines:
        raise ConfigError(nothing_to_compare(results, reference))
    name = labels[reference]
    above = _above(name)
    extremes = "; ".join(
        f"{line.label}: from {_points(line.y.min())} to {_points(line.y.max())} percentage points"
        for line in lines
    )
    return Chart(
        tuple(lines),
        Frame(
            (0.0, right),
            _range(lines),
            left=64 + LABEL_LINE * above.count("\n"),
            ticks=(9, 9),
            y_format=_points,
        ),
        title=f"Certified accuracy minus that of {name}",
        description=f"Differences to {name} on the inputs that both have, with 95 % bands of the paired bootstrap, "
        f"each radius for itself. {extremes}.",
        labels=(radius_label(compared, rounded), above),
        name="differences",
    )


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


def _range(lines: Sequence[Line]) -> tuple[float, float]:
    """All values with their bands, and 0, with some room; never empty."""
    values = np.concatenate([[0.0], *(np.concatenate(line.band or ()) for line in lines)])
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 0.01
    return low - room, high + room


def _points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    points = round(100 * share, 2) + 0.0
    return f"{points:+g}" if points else "0"
