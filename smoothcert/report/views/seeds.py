"""Mean and standard deviation over runs that differ in their seed alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from smoothcert.errors import ConfigError
from smoothcert.report.labels import radius_labels
from smoothcert.report.measures.across_seeds import Spread, seed_groups, seed_summary
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import doubted, run_labels
from smoothcert.report.table import Table
from smoothcert.report.view import View
from smoothcert.statistics.printed import in_percent, number

if TYPE_CHECKING:
    from smoothcert.report.report import Report


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


def _spread(value: Spread, shown: Callable[..., str], digits: int) -> str:
    mean, std = (shown(part, digits=digits) for part in (value.mean, value.std))
    return f"{mean} ± {std}" if mean else ""


def _tables(report: Report) -> list[Table]:
    table = seed_table(report.runs, report.radii_of(report.runs), report.options.rounded)
    if table is None:
        raise ConfigError(
            "means over seeds need two complete runs that differ in their seed alone, found none"
        )
    return [replace(table, caption="Means over seeds")]


VIEW = View(
    "seeds",
    "Over seeds",
    "means over runs that differ in their seed alone",
    _tables,
    how=lambda report: "Mean ± sample standard deviation over runs that differ only in their seed.",
)
