"""What tables and drawings of envelopes say, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smoothcert.report.measures.envelope import (
    Winner,
    envelope_curve,
)
from smoothcert.report.measures.groups import Grouping
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.views.envelope import winners_of

if TYPE_CHECKING:
    pass


def envelope_values(
    results: Sequence[Certificates],
    radii: Sequence[float],
    rounded: bool = False,
    by: Grouping = "method",
) -> list[dict[str, Any]]:
    """What both tables and the drawing of envelopes say of each group; runs are named by their places in `results`.

    `best` has the radii that a run of the group has tested. Where nothing is certified no run is the best.
    """
    places = [i for i, c in enumerate(results) if c.labelled]
    groups, winners = winners_of([results[i] for i in places], radii, rounded, by)
    found = []
    for group, won in zip(groups, winners, strict=True):
        rows = [places[i] for i in group.runs]
        curve = envelope_curve([results[i] for i in rows], rounded)
        stretches = () if curve is None else curve.stretches
        found.append(
            {
                "name": group.name,
                "rows": rows,
                "best": [_best(winner, rows) for winner in won.values()],
                "stretches": [
                    {"row": rows[each.run], "start": each.start, "end": each.end}
                    for each in stretches
                ],
            }
        )
    return found


def _best(won: Winner, rows: Sequence[int]) -> dict[str, Any]:
    known = won.accuracy > 0
    return {
        "radius": won.radius,
        "accuracy": won.accuracy,
        "row": rows[won.run] if known else None,
        "clean_accuracy": won.clean if known else None,
        "abstention_rate": won.abstention if known else None,
        "tied": [rows[i] for i in won.tied] if known else [],
    }
