"""Our numbers beside those that papers print for the same settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from smoothcert.errors import ConfigError
from smoothcert.report.labels import radius_labels, signed
from smoothcert.report.measures.analysis import (
    average_certified_radius,
    certified_accuracy,
)
from smoothcert.report.measures.published_comparison import (
    differences_in_making,
    rows_like,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.table import Table
from smoothcert.report.view import View
from smoothcert.statistics.printed import in_percent
from smoothcert.statistics.value import CERTIFIED_ACCURACY

if TYPE_CHECKING:
    from smoothcert.report.report import Report


def published_table(results: Sequence[Certificates], radii: Sequence[float]) -> Table | None:
    """Ours, published and the difference for each run with a published row; radii rounded as published ones are."""
    rows: list[tuple[str, ...]] = []
    for c, label in zip(results, labels_of(results), strict=True):
        row = next((row for row in rows_like(c) if row.acr and row.acr.seeds == 1), None)
        if row is None or row.acr is None or differences_in_making(c, row):
            continue
        ours = certified_accuracy(c, radii, rounded=True).tolist()
        printed = [row.at(CERTIFIED_ACCURACY, r) for r in radii]
        theirs = [value and value.value for value in printed]
        acr = average_certified_radius(c, rounded=True)
        rows += [
            (label, "ours", f"{acr:.3f}", *map(in_percent, ours)),
            (
                "",
                "published",
                f"{row.acr.value:.3f}",
                *("-" if t is None else in_percent(t) for t in theirs),
            ),
            (
                "",
                "difference",
                signed(acr - row.acr.value, 3),
                *(
                    "-" if t is None else signed(100 * (o - t), 1)
                    for o, t in zip(ours, theirs, strict=True)
                ),
            ),
        ]
    return Table(("run", "", "ACR"), tuple(rows), radius_labels(radii)) if rows else None


def _tables(report: Report) -> list[Table]:
    table = published_table(report.runs, report.radii_of(report.runs))
    if table is None:
        raise ConfigError(
            "nothing to put beside published values: no run was trained and certified as a row of the papers"
        )
    return [replace(table, caption="Ours beside the published values", look="pairs")]


VIEW = View("published", "Published values", "our numbers beside those that papers print", _tables)
