"""The distribution of the lower bound of p_A, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.errors import ConfigError
from smoothcert.report.measures.confidence import has_confidence, p_ecdf
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.tables.formats import Table, number

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)


def confidence_table(results: Sequence[Certificates], levels: Sequence[float] = LEVELS) -> Table:
    """The share of inputs with p_A of at least p, for each run whose p_A is known (`p_ecdf`)."""
    rows, notes = [], []
    for c, label in zip(results, labels_of(results), strict=True):
        if has_confidence(c):
            rows.append((label, *(number(100 * share, 1) for share in p_ecdf(c, levels).tolist())))
        else:
            notes.append(f"{label}: p_A is not known")
    if not rows:
        raise ConfigError(
            "a table of confidence needs a run whose p_A is known, found none: certificates of chosen radii alone, "
            "and logs whose path does not name sigma, do not tell it"
        )
    if any(not c.labelled for c in results):
        notes.append("inputs without labels count where they are answered, right or wrong")
    return Table(
        ("run",),
        tuple(rows),
        tuple(f"{p:g}" for p in levels),
        tuple(notes),
        group="correct (%) with confidence of at least p",
        symbol="p",
        caption="Confidence",
    )
