"""Each run minus a reference, with intervals of the paired bootstrap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothcert.report.measures.bootstrap import NO_INTERVAL, Interval
from smoothcert.report.measures.collapse import collapsed
from smoothcert.report.measures.pairing import differences, paired, rounding_needed
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.table import Cell, Table
from smoothcert.report.tables.notes import (
    ROUNDED,
    alarm_notes,
    budget_notes,
    copy_notes,
    settings_notes,
)
from smoothcert.report.tables.tables import radius_digits, radius_labels, signed

POINTS = "difference of certified accuracy (points) at r"
ALL_ROUNDED = "some runs have radii of 3 digits, as in published logs: all radii are rounded so for the differences"


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
