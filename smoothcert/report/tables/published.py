"""Ours beside published rows, value by value, with verdicts; seeds of a run are taken together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smoothcert.published.catalogue import load_table
from smoothcert.published.row import Row
from smoothcert.report.measures.published_comparison import (
    find_published,
    measured,
    rows_like,
    settings_of,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.tables.formats import Table
from smoothcert.report.tables.tables import radius_labels, signed
from smoothcert.statistics.value import ACR, CERTIFIED_ACCURACY


def published_table(
    results: Sequence[Certificates],
    radii: Sequence[float] | None = None,
    tables: Sequence[str] = (),
) -> Table | None:
    """The rows that runs were made as: of these published tables, else those that are preferred for each run.

    Without `radii` at those that the rows have. Radii of ours are rounded as published ones are.
    """
    from smoothcert.published.judge import (
        judge_row,
    )  # with SciPy, which reports of logs do not need

    results = [c for c in results if c.labelled]
    chosen = [row for name in tables for row in load_table(name).rows]
    chosen = chosen or [row for c in results for row in _preferred(c)]
    rows = [row for i, row in enumerate(chosen) if row.printed and row not in chosen[:i]]
    known = sorted({v.r for row in rows for v in row.printed if v.r is not None and not v.on})
    places = [(ACR, None, ""), *((CERTIFIED_ACCURACY, r, "") for r in radii or known)]
    at = sorted({v.r or 0.0 for row in rows for v in row.printed} | {*(radii or ())})
    lines: list[tuple[str, ...]] = []
    reasons: dict[str, None] = {}
    runs = [measured(c, at) for c in results]
    for row in rows:
        models = row.best_of or (row,)
        alike = [
            label
            for c, label in zip(results, labels_of(results), strict=True)
            if any(not m.differences(c.config or {}, settings_of(c)) for m in models)
        ]
        if not alike:
            continue
        found = {v.place: d for v, d in zip(row.printed, judge_row(row, runs), strict=True)}
        ours, gaps, words = [], [], []
        for place in places:
            verdict, value = found.get(place), row.at(*place)
            if verdict is None or value is None or math.isnan(verdict.difference):
                ours.append("-")
                gaps.append("-")
            else:
                unit, digits = (100, 1) if value.is_share else (1, 3)
                own = value._replace(value=value.value + verdict.difference, sd=math.nan)
                ours.append(row.text(own))
                gap, half = signed(unit * verdict.difference, digits), unit * verdict.half
                gaps.append(gap if math.isnan(half) else f"{gap} ± {half:.{digits}f}")
            words.append(verdict.word if verdict else "-")
            if verdict and verdict.word == "not judged":
                reasons[verdict.reason.partition(",")[0]] = None
        which = alike[0] if len(alike) == 1 else f"{alike[0]}, ... ({len(alike)} runs)"
        lines += [
            (which, "ours", *ours),
            (f"{row.table}: {row.label}", "published", *(row.text(row.at(*p)) for p in places)),
            ("", "difference", *gaps),
            ("", "verdict", *words),
        ]
    notes = [f"not judged: {reason}" for reason in reasons]
    radius = radius_labels(radii or known)
    return Table(("run", "", "ACR"), tuple(lines), radius, tuple(notes)) if lines else None


def _preferred(c: Certificates) -> list[Row]:
    """Of a single run, with its accuracies, and the mean over seeds."""
    single = [row for row in rows_like(c) if row.acr and row.acr.seeds == 1][:1]
    mean = find_published(c)
    return [*single, *([mean] if mean and mean not in single else [])]
