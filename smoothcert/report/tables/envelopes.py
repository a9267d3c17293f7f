"""Groups of runs by the best run of each at each radius: its accuracies, and how often it abstains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from smoothcert.errors import ConfigError
from smoothcert.report.measures.across_seeds import seed_groups
from smoothcert.report.measures.analysis import proved
from smoothcert.report.measures.envelope import Winner, envelope_curve, upper_envelope
from smoothcert.report.measures.groups import Group, Grouping, groups_of, lacking_sigmas
from smoothcert.report.measures.same_data import comparable, require_same_data
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.table import Cell, Table, marked
from smoothcert.report.tables.notes import comparison_notes
from smoothcert.report.tables.tables import radius_labels
from smoothcert.statistics.printed import in_percent

ENVELOPE = "certified accuracy (%) of the best run, in brackets its accuracy at 0, at r"
ABSTENTIONS = "abstention rate (%) of the best run at r"


def group_envelope_table(
    results: Sequence[Certificates],
    radii: Sequence[float],
    rounded: bool = False,
    by: Grouping = "method",
) -> Table:
    """One row per group: the certified accuracy of its best run at each radius, and that run's accuracy at radius 0.

    This is how papers show what a method can do at each radius with the best of several models. The notes name them.
    """
    groups, winners = _winners(results, radii, rounded, by)
    down = proved(results, rounded)
    rows = [
        (group.name, *(_cell(won.get(r), down) for r in radii))
        for group, won in zip(groups, winners, strict=True)
    ]
    best = set()
    for column, r in enumerate(radii if comparable(results) else (), start=1):
        shares = {
            row: won[r].accuracy
            for row, won in enumerate(winners)
            if r in won and not results[groups[row].runs[won[r].run]].partial
        }
        top = max(shares.values(), default=0.0)
        best |= {
            (row, column) for row, share in shares.items() if len(shares) > 1 and share == top > 0
        }
    notes = [
        *_names(results, groups, winners),
        *_lacking(results, groups, by),
        *comparison_notes(results, rounded),
    ]
    return Table(
        ("best of",),
        marked(rows, lambda i, j: (i, j) in best),
        radius_labels(radii),
        tuple(notes),
        ENVELOPE,
    )


def abstention_table(
    results: Sequence[Certificates],
    radii: Sequence[float],
    rounded: bool = False,
    by: Grouping = "method",
) -> Table:
    """One row per group: how often the run abstains that has the largest certified accuracy at each radius.

    The rate itself does not depend on the radius, only the choice of the run does.
    """
    groups, winners = _winners(results, radii, rounded, by)
    rows = [
        (group.name, *(_abstention(won.get(r)) for r in radii))
        for group, won in zip(groups, winners, strict=True)
    ]
    notes = [
        *_names(results, groups, winners),
        *_lacking(results, groups, by),
        *comparison_notes(results, rounded),
    ]
    return Table(("best of",), tuple(rows), radius_labels(radii), tuple(notes), group=ABSTENTIONS)


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
    groups, winners = _winners([results[i] for i in places], radii, rounded, by)
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


def _winners(
    results: Sequence[Certificates], radii: Sequence[float], rounded: bool, by: Grouping
) -> tuple[list[Group], list[dict[float, Winner]]]:
    """The groups, and for each radius that was tested the best run of each, as a place in its group."""
    norms = sorted({c.norm for c in results})
    if len(norms) > 1:
        raise ConfigError(
            f"a best run needs radii in one norm, found {' and '.join(norms)}: report them apart"
        )
    groups, winners = groups_of(results, by), []
    for group in groups:
        require_same_data([results[i] for i in group.runs], f"the best run of {group.name}")
        found = upper_envelope([results[i] for i in group.runs], radii, rounded)
        winners.append({won.radius: won for won in found})
    return groups, winners


def _cell(won: Winner | None, down: bool) -> str:
    """`68.2 (86.2)`; where nothing is certified no run is the best, and blank where nothing is known."""
    if won is None:
        return ""
    accuracy, clean = _two(won, down)
    return Cell(f"{accuracy} ({clean})" if clean else accuracy, apart=(accuracy, clean))


def _two(won: Winner, down: bool) -> tuple[str, str]:
    return in_percent(won.accuracy, down), in_percent(won.clean, down) if won.accuracy > 0 else ""


def _abstention(won: Winner | None) -> str:
    if won is None:
        return ""
    return in_percent(won.abstention) if won.accuracy > 0 else "-"


def _names(
    results: Sequence[Certificates], groups: Sequence[Group], winners: Sequence[dict[float, Winner]]
) -> list[str]:
    """A note for each group of several runs: which of them is the best from which radius on."""
    labels, notes = labels_of(results), []
    for group, won in zip(groups, winners, strict=True):
        best = [winner for winner in won.values() if winner.accuracy > 0]
        if len(group.runs) == 1 or not best:
            continue
        parts = []
        for run, same in groupby(best, lambda winner: winner.run):
            first, *rest = radius_labels([winner.radius for winner in same])
            parts.append(
                f"{labels[group.runs[run]]} at {first}" + (f" to {rest[-1]}" if rest else "")
            )
        notes.append(f"{group.name}: the best is {', '.join(parts)}")
    for seeds in seed_groups(results):
        if any({*seeds} <= {*group.runs} for group in groups):
            notes.append(
                f"{', '.join(labels[i] for i in seeds)} differ in their seed alone: the best of them is luck"
            )
    return notes


def _lacking(results: Sequence[Certificates], groups: Sequence[Group], by: Grouping) -> list[str]:
    """A note for each group without runs of a sigma that others have."""
    return [
        f"{group.name} has no run of σ = {', '.join(f'{sigma:g}' for sigma in lacking)}, which others have: its best "
        "is chosen among fewer"
        for group, lacking in zip(groups, lacking_sigmas(results, groups, by), strict=True)
        if lacking
    ]
