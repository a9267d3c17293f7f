"""Each run minus a reference, image by image: is it more than chance in the test images?"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.curves import axis_top, radius_label
from smoothcert.report.labels import radius_digits, radius_labels, signed
from smoothcert.report.measures.analysis import Floats, certified_accuracy, correct_radii
from smoothcert.report.measures.bootstrap import NO_INTERVAL, Interval, paired_curve
from smoothcert.report.measures.collapse import collapsed
from smoothcert.report.measures.pairing import (
    Pair,
    differences,
    nothing_to_compare,
    paired,
    rounding_needed,
)
from smoothcert.report.notes import (
    ROUNDED,
    alarm_notes,
    budget_notes,
    copy_notes,
    settings_notes,
)
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
from smoothcert.report.read.names import drawn_labels, labels_of
from smoothcert.report.table import Cell, Table
from smoothcert.report.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report

POINTS = "difference of certified accuracy (points) at r"
ALL_ROUNDED = "some runs have radii of 3 digits, as in published logs: all radii are rounded so for the differences"
MOST = 24  # runs compared on the page: with more of them nobody reads it
STEPS = 201  # of a line, beside its last steps
LETTERS, LINE = (
    10,
    20,
)  # of the reference's name beside the axis: after other words, and in lines of its own


def difference_table(
    results: Sequence[Certificates],
    reference: int,
    radii: Sequence[float],
    rounded: bool = False,
    *,
    most: int | None = None,
) -> Table | None:
    """Each run minus the reference with 95 % paired-bootstrap intervals, on the inputs that both have (`paired`).

    Best are the cells whose interval excludes 0, but of no run that answers one class.
    Runs that cannot be compared are named in the notes, and of
    the others only the first `most` are; None if no run is left.
    """
    labels = labels_of(results)
    pairs, left_out = paired(results, reference)
    rows: list[tuple[str, ...]] = []
    untold = []
    for pair, found in differences(pairs[:most], radii, rounded):
        entries = [
            (found.acr, 1.0, radius_digits(pair.run)),
            *((interval, 100.0, 1) for interval in found.accuracy),
        ]
        cells = (_value(*entry, known=not collapsed(pair.run)) for entry in entries)
        rows.append((labels[pair.place], str(pair.run.rows), *cells))
        if np.isnan(found.acr.low) and not np.isnan(found.acr.value):
            untold.append(labels[pair.place])
    notes = alarm_notes(results)
    notes += [f"{labels[place]} is left out: {reason}" for place, reason in left_out.items()]
    compared = [results[reference], *(results[pair.place] for pair in pairs)]
    notes += [
        *([f"{', '.join(untold)}: the difference of the ACR {NO_INTERVAL}"] if untold else []),
        *copy_notes(compared),
        *budget_notes(compared),
        *settings_notes(compared),
        *([ROUNDED] if rounded else []),
    ]
    if not rounded and rounding_needed(pairs[:most]):
        notes.append(ALL_ROUNDED)
    if len(rows) < len(pairs):
        notes.append(f"the first {len(rows)} of {len(pairs)} runs")
    head = (f"minus {labels[reference]}", "inputs", "ACR")
    if not rows:
        return None
    return Table(
        head,
        tuple(rows),
        radius_labels(radii),
        tuple(notes),
        POINTS,
        caption=f"Differences to {labels[reference]}, with 95 % intervals of the paired bootstrap",
    )


def _value(value: Interval, scale: float, digits: int, known: bool) -> Cell:
    text = "" if np.isnan(value.value) else signed(scale * value.value, digits)
    best = value.excludes_zero and known
    if np.isnan(value.low):
        return Cell(text, best=best)
    # an end that rounds to 0 keeps its sign: below 0, an upper end excludes 0
    low, high = (f"{scale * end + 0.0:+.{digits}f}" for end in (value.low, value.high))
    return Cell(text, best=best, around=(low, high))


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
    return np.unique(np.concatenate([np.linspace(0.0, right, STEPS), *steps]))


def _points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    points = round(100 * share, 2) + 0.0
    return f"{points:+g}" if points else "0"


def _tables(report: Report) -> list[Table]:
    place, radii = report.reference_place(), report.radii_of(report.labelled)
    if report.on_page:
        rounded = report.options.rounded
        radii = radii_to_compare(report.runs[:MOST], report.runs[place], radii, rounded)
    table = difference_table(report.runs, place, radii, report.options.rounded, most=_most(report))
    if table is None:
        raise ConfigError(nothing_to_compare(report.runs, place))
    return [table]


def _draw(report: Report) -> Figure:
    place, rounded = report.reference_place(), report.options.rounded
    return difference_figure(report.runs, place, rounded, most=_most(report))


def _most(report: Report) -> int | None:
    return MOST if report.on_page else None


def radii_to_compare(
    results: Sequence[Certificates],
    reference: Certificates,
    radii: Sequence[float],
    rounded: bool,
    most: int = 8,
) -> list[float]:
    """All radii if they are few, else evenly spaced ones and those with the largest gain and the largest loss."""
    if len(radii) <= most:
        return list(radii)
    shares = np.array([certified_accuracy(c, list(radii), rounded) for c in results])
    difference = np.nan_to_num(
        shares - certified_accuracy(reference, list(radii), rounded)
    )  # [runs, radii]
    extremes = {int(difference.max(axis=0).argmax()), int(difference.min(axis=0).argmin())}
    even = np.linspace(0, len(radii) - 1, most - len(extremes)).round().astype(int).tolist()
    return [radii[place] for place in sorted(extremes | set(even))]


def _how(report: Report) -> str:
    name = labels_of(report.runs)[report.reference_place()]
    return (
        f"Certified accuracy minus that of {name}, in percentage points, on the inputs that both have. Shaded and in "
        "brackets: 95 % intervals of the paired bootstrap over the inputs, each radius for itself. Bold: the interval "
        "leaves 0 out. The intervals speak of the choice of inputs, not of the luck of training: that takes several "
        "seeds."
    )


VIEW = View(
    "differences",
    "Differences",
    "each run minus a reference, on the same images, with intervals",
    _tables,
    _draw,
    _how,
)
