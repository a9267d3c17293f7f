"""The main table: a row for each run, with its ACR, abstentions and certified accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.labels import checked_radii, radius_digits, radius_labels
from smoothcert.report.measures.analysis import (
    abstention_rate,
    average_certified_radius,
    average_radius,
    certified_accuracy,
    certified_share,
    default_radii,
    proved,
)
from smoothcert.report.measures.bootstrap import NO_INTERVAL
from smoothcert.report.measures.intervals import run_intervals
from smoothcert.report.measures.published_comparison import (
    OF_ROUNDED,
    deviation,
    differences_in_making,
    find_published,
    published_notes,
)
from smoothcert.report.measures.same_data import comparable, contenders
from smoothcert.report.notes import alarm_notes, comparison_notes, inputs_cell, settings_notes
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import (
    ALARM,
    labels_of,
    one_line,
)
from smoothcert.report.table import ACCURACY, SHARE, Cell, Table, marked
from smoothcert.statistics.printed import doubt, in_percent, number

if TYPE_CHECKING:
    pass

PUBLISHED = ("published", "difference")
INTERVALS = (
    "the intervals of 95 % are exact for shares (Clopper-Pearson), and by the bootstrap for mean radii; they speak of "
    "the choice of inputs, not of the luck of training"
)


def certificate_table(
    results: Sequence[Certificates],
    radii: Sequence[float] | None = None,
    rounded: bool = False,
    intervals: bool = False,
) -> Table:
    """ACR, abstentions and certified accuracy at `radii` (by default: `default_radii`) for each run.

    What stores prove is rounded down (`proved`); `rounded` takes radii at the 3 digits of published logs, and rounds
    as papers do. Cells of radii that a run did not test stay blank. The best value of a column is marked among the
    `contenders`, if the runs can be compared (`comparable`). If the papers have a row for the settings of a run
    (`find_published`), its ACR stands beside ours.

    `intervals` adds 95 % intervals over the choice of inputs (`run_intervals`).

    Runs without labels have no ACR and no accuracy. If all are such, the table has their mean radii and certified
    shares (`certified_share`) instead.
    """
    if not results:
        raise ConfigError("a table needs at least one run, found none")
    radii = default_radii(results) if radii is None else checked_radii(radii)
    published = [find_published(c) for c in results]
    alike = [
        row is not None and not differences_in_making(c, row)
        for c, row in zip(results, published, strict=True)
    ]
    columns = PUBLISHED[
        : any(published) + any(alike)
    ]  # no column of differences where there is none
    norms = {c.norm for c in results}
    # columns of their own, since CSV has no notes
    named, doubtful = norms != {"l2"}, any(doubt(c.noise) for c in results)
    shown, down = any(c.labelled for c in results), proved(results, rounded)
    rows: list[tuple[str, ...]] = []
    for c, row, same in zip(results, published, alike, strict=True):
        accuracies = (certified_accuracy if shown else certified_share)(c, radii, rounded)
        cells = (
            [in_percent(share, down) for share in accuracies]
            if c.labelled or not shown
            else ["-"] * len(radii)
        )
        beside = (
            ("-", "-")
            if row is None
            else (row.text(row.acr), deviation(c, row).printed() if same else "-")
        )
        rows.append(
            (
                one_line(c.name) + f" ({ALARM})" * bool(c.alarms),
                "-" if c.sigma is None else f"{c.sigma:g}",
                *((c.norm,) if named else ()),
                *((doubt(c.noise) or c.noise or "-",) if doubtful else ()),
                inputs_cell(c),
                number(average_certified_radius(c, rounded), radius_digits(c), down)
                if c.labelled
                else "-",
                *beside[: len(columns)],
                *(() if shown else (number(average_radius(c, rounded), radius_digits(c), down),)),
                in_percent(abstention_rate(c)),
                *cells,
            )
        )
    told = [name for name, shown in (("norm", named), ("noise", doubtful)) if shown]
    head = (
        "run",
        "sigma",
        *told,
        "inputs",
        "ACR",
        *columns,
        *(() if shown else ("mean radius",)),
        "abstain %",
    )
    best_of = [
        i
        for i in contenders(results, range(len(results)) if comparable(results) else ())
        if results[i].labelled and not results[i].partial
    ]
    notes = comparison_notes(results, rounded) + published_notes(
        results, labels_of(results), rounded
    )
    measured = [head.index("ACR" if shown else "mean radius"), head.index("abstain %")]
    measured += range(len(head), len(rows[0]))
    if intervals:
        rows, told = _with_intervals(rows, head, measured, results, radii, rounded)
        notes += told
    rows = _best(rows, best_of, [head.index("ACR"), *range(len(head), len(rows[0]))])
    group, word = (ACCURACY, "") if shown else (SHARE, "share ")
    return Table(head, tuple(rows), radius_labels(radii), tuple(notes), group, word)


def _with_intervals(
    rows: Sequence[Sequence[str]],
    head: Sequence[str],
    places: Sequence[int],
    results: Sequence[Certificates],
    radii: Sequence[float],
    rounded: bool,
) -> tuple[list[tuple[str, ...]], list[str]]:
    """The rows with intervals at these places, of which the first is the mean radius, and notes on them."""
    found, untold = [], []
    for c, label, row in zip(results, labels_of(results), rows, strict=True):
        own = run_intervals(c, radii, np.random.default_rng(0), rounded)
        cells = list(row)
        for j, interval in zip(places, (own.mean, own.abstention, *own.shares), strict=True):
            if cells[j] in ("", "-"):
                continue
            if np.isnan(interval.low):
                untold.append(label)
            else:
                low, high = (
                    number(end, radius_digits(c)) if j == places[0] else in_percent(end)
                    for end in (interval.low, interval.high)
                )
                cells[j] = Cell(cells[j], around=(low, high))
        found.append(tuple(cells))
    told = [f"{', '.join(untold)}: the {head[places[0]]} {NO_INTERVAL}"] if untold else []
    return found, [*told, INTERVALS]


def _best(
    rows: Sequence[Sequence[str]], complete: Sequence[int], columns: Sequence[int]
) -> list[tuple[str, ...]]:
    """The rows with the largest ACR and certified accuracies marked, as printed; ties share it, 0 is never best."""
    marks: set[tuple[int, int]] = set()
    for j in columns if len(complete) > 1 else ():
        known = {i: float(rows[i][j]) for i in complete if rows[i][j]}
        marks |= {
            (i, j)
            for i, value in known.items()
            if len(known) > 1 and value == max(known.values()) > 0
        }
    return list(marked(rows, lambda i, j: (i, j) in marks))


def with_budget(table: Table, results: Sequence[Certificates]) -> Table:
    """With samples n and failure probability alpha after the inputs, where any run knows them, and not in the notes."""
    place = table.head.index("inputs") + 1
    budget = [_budget(c) for c in results]
    told = (*alarm_notes(results), INTERVALS, OF_ROUNDED, *settings_notes(results))
    table = replace(table, notes=tuple(note for note in table.notes if note not in told))
    if not any(cell != "-" for pair in budget for cell in pair):
        return table
    rows = [
        (*row[:place], *cells, *row[place:]) for row, cells in zip(table.rows, budget, strict=True)
    ]
    head = (*table.head[:place], "n", "alpha", *table.head[place:])
    return replace(table, head=head, rows=tuple(rows))


def _budget(c: Certificates) -> tuple[str, str]:
    early = c.identity.get("procedure", "fixed") != "fixed"
    n = "-" if c.n is None else f"{'≤ ' * early}{c.n}"
    return n, "-" if c.alpha is None else f"{c.alpha:g}"
