"""The best run of each group at each radius: its accuracies, and how often it abstains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from smoothcert.errors import ConfigError
from smoothcert.report.labels import radius_labels
from smoothcert.report.measures.across_seeds import seed_groups
from smoothcert.report.measures.analysis import (
    clean_accuracy,
    proved,
)
from smoothcert.report.measures.envelope import (
    Winner,
    upper_envelope,
)
from smoothcert.report.measures.groups import Group, Grouping, groups_of, lacking_sigmas
from smoothcert.report.measures.same_data import comparable, require_same_data
from smoothcert.report.notes import comparison_notes
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import (
    labels_of,
)
from smoothcert.report.table import Cell, Table, marked
from smoothcert.report.view import View
from smoothcert.report.views.envelope_figure import envelope_figure
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report

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
    groups, winners = winners_of(results, radii, rounded, by)
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
    groups, winners = winners_of(results, radii, rounded, by)
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


def winners_of(
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


def envelope_table(
    results: Sequence[Certificates], radii: Sequence[float], rounded: bool = False
) -> Table:
    """The best run for each radius, or all that tie, with their clean accuracies (`upper_envelope`)."""
    labels, down = labels_of(results), proved(results, rounded)
    clean = [in_percent(clean_accuracy(c), down) for c in results]
    rows = [
        (
            *radius_labels([w.radius]),
            in_percent(w.accuracy, down),
            ", ".join(labels[i] for i in w.tied) + (" (tie)" if len(w.tied) > 1 else ""),
            ", ".join(clean[i] or "not tested" for i in w.tied),
        )
        for w in upper_envelope(results, radii, rounded)
        if w.accuracy > 0
    ]
    return Table(("r", "certified accuracy %", "best run", "its accuracy at r=0 %"), tuple(rows))


def _tables(report: Report) -> list[Table]:
    runs, options = _enveloped(report), report.options
    radii = report.radii_of(runs)
    if report.on_page:
        if not comparable(runs):
            raise ConfigError("a best run needs runs that can be compared")
        return [replace(envelope_table(runs, radii, options.rounded), look="text")]
    best = group_envelope_table(runs, radii, options.rounded, options.group_by)
    abstentions = abstention_table(runs, radii, options.rounded, options.group_by)
    return [
        replace(best, caption="Best run for each radius"),
        replace(abstentions, caption="Abstention rate of the best run for each radius"),
    ]


def _enveloped(report: Report) -> list[Certificates]:
    runs = report.labelled
    if len(runs) < 2:
        found = ", ".join(labels_of(runs)) or "none"
        others = len(report.runs) - len(runs)
        without = f" ({others} without labels)" * bool(others)
        raise ConfigError(
            f"an envelope needs two runs with labels or more, found {found}{without}: name more of them"
        )
    if len(norms := sorted({c.norm for c in runs})) > 1:
        raise ConfigError(
            f"an envelope needs radii in one norm, found {' and '.join(norms)}: name runs of one norm"
        )
    return runs


def _draw(report: Report) -> Figure:
    by = report.options.group_by
    if report.on_page and all(len(group.runs) == 1 for group in groups_of(report.labelled, by)):
        raise ConfigError("an envelope of one run is its curve")
    return envelope_figure(report.runs, by, report.options.rounded)


VIEW = View(
    "envelope",
    "Best run for each radius",
    "the best of several runs at each radius",
    _tables,
    _draw,
    keys=True,
)
