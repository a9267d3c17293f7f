"""The tables of a report: certified accuracies first, then what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.across_seeds import Spread, seed_groups, seed_summary
from smoothcert.report.measures.analysis import (
    abstention_rate,
    average_certified_radius,
    average_radius,
    certified_accuracy,
    certified_share,
    clean_accuracy,
    default_radii,
    proved,
)
from smoothcert.report.measures.bootstrap import NO_INTERVAL
from smoothcert.report.measures.classes import per_class
from smoothcert.report.measures.envelope import upper_envelope
from smoothcert.report.measures.intervals import run_intervals
from smoothcert.report.measures.published_comparison import (
    deviation,
    differences_in_making,
    find_published,
    published_notes,
)
from smoothcert.report.measures.same_data import comparable, contenders
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import ALARM, doubted, labels_of, one_line, run_labels
from smoothcert.report.tables.formats import ACCURACY, SHARE, Table
from smoothcert.report.tables.notes import comparison_notes, inputs_cell
from smoothcert.statistics.printed import doubt, in_percent, number

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
    rows = []
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
    best = _best(rows, best_of, [head.index("ACR"), *range(len(head), len(rows[0]))])
    group, word = (ACCURACY, "") if shown else (SHARE, "share ")
    table = Table(head, tuple(rows), radius_labels(radii), tuple(notes), best, group, word)
    return _with_intervals(table, results, radii, rounded) if intervals else table


def _with_intervals(
    table: Table, results: Sequence[Certificates], radii: Sequence[float], rounded: bool
) -> Table:
    mean = table.head.index("mean radius" if "mean radius" in table.head else "ACR")
    places = [mean, table.head.index("abstain %"), *range(len(table.head), len(table.columns))]
    ends, untold = {}, []
    for i, (c, label) in enumerate(zip(results, labels_of(results), strict=True)):
        found = run_intervals(c, radii, np.random.default_rng(0), rounded)
        every = (found.mean, found.abstention, *found.shares)
        for j, interval in zip(places, every, strict=True):
            if table.rows[i][j] in ("", "-"):
                continue
            if np.isnan(interval.low):
                untold.append(label)
            else:
                low, high = (
                    number(end, radius_digits(c)) if j == mean else in_percent(end)
                    for end in (interval.low, interval.high)
                )
                ends[i, j] = low, high
    told = [f"{', '.join(untold)}: the {table.head[mean]} {NO_INTERVAL}"] if untold else []
    return replace(table, intervals=ends, notes=(*table.notes, *told, INTERVALS))


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


def seed_table(
    results: Sequence[Certificates], radii: Sequence[float], rounded: bool = False
) -> Table | None:
    """Mean ± sample standard deviation over the runs that differ only in their seed; None if there are none."""
    names, rows = run_labels([c.name for c in results], [c.sigma for c in results]), []
    for group in seed_groups(results):
        summary = seed_summary([results[i] for i in group], radii, rounded)
        shares = [_spread(s, in_percent, 2) for s in summary.accuracy]
        acr = _spread(summary.acr, number, 4)
        name = doubted(f"{names[group[0]]}, ...", *(results[i] for i in group))
        rows.append((name, str(summary.runs), acr, *shares))
    return (
        Table(("experiment", "seeds", "ACR"), tuple(rows), radius_labels(radii)) if rows else None
    )


def class_table(
    results: Sequence[Certificates],
    names: Sequence[str] = (),
    rounded: bool = False,
    most: int = 20,
) -> Table | None:
    """The ACR of each run that has one, class by class, for the `most` classes with the smallest mean over the runs."""
    results = [c for c in results if c.tested_radii is None and c.labelled]
    values = [{entry.label: entry.acr for entry in per_class(c, rounded=rounded)} for c in results]
    classes = sorted({label for run in values for label in run})
    mean = {k: np.mean([run[k] for run in values if k in run]) for k in classes}
    shown, down = sorted(sorted(classes, key=lambda k: mean[k])[:most]), proved(results, rounded)
    rows = [
        (label, *(number(run[k], radius_digits(c), down) if k in run else "-" for k in shown))
        for c, label, run in zip(results, labels_of(results), values, strict=True)
    ]
    return (
        Table(("run", *(names[k] if k < len(names) else str(k) for k in shown)), tuple(rows))
        if rows
        else None
    )


def radius_digits(c: Certificates) -> int:
    """Of a mean radius; those in l-infinity norm are small."""
    return 5 if c.norm == "linf" else 3


def checked_radii(radii: Sequence[float]) -> list[float]:
    if not all(np.isfinite(r) and r >= 0 for r in radii):
        raise ConfigError(f"expected radii of at least 0, found {list(radii)}")
    return list(radii)


def radius_labels(radii: Sequence[float]) -> tuple[str, ...]:
    return tuple(_radius_label(r) for r in radii)


def _radius_label(r: float) -> str:
    """`0.50`; `2/255`, as steps of 8-bit images are written; else as many digits as it has."""
    if round(r, 2) == r:
        return f"{r:.2f}"
    levels = round(255 * r)
    return f"{levels}/255" if abs(255 * r - levels) < 1e-9 else f"{r:g}"


def _best(
    rows: Sequence[Sequence[str]], complete: Sequence[int], columns: Sequence[int]
) -> frozenset[tuple[int, int]]:
    """Where the largest ACR and certified accuracies stand, as printed; ties share it, 0 is never best."""
    marks = set()
    for j in columns if len(complete) > 1 else ():
        known = {i: float(rows[i][j]) for i in complete if rows[i][j]}
        marks |= {
            (i, j)
            for i, value in known.items()
            if len(known) > 1 and value == max(known.values()) > 0
        }
    return frozenset(marks)


def _spread(value: Spread, shown: Callable[..., str], digits: int) -> str:
    mean, std = (shown(part, digits=digits) for part in (value.mean, value.std))
    return f"{mean} ± {std}" if mean else ""


def signed(value: float, digits: int) -> str:
    """With its sign, but never "-0.0"."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"
