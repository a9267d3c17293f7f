"""The distribution of the lower bound of p_A, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.report.measures.analysis import proved
from smoothcert.report.measures.confidence import has_confidence, no_confidence, p_ecdf, why_unknown
from smoothcert.report.measures.intervals import share_intervals
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.table import Cell, Table
from smoothcert.report.tables.notes import (
    budget_notes,
    input_notes,
    inputs_cell,
    reading_notes,
    settings_notes,
)
from smoothcert.statistics.printed import in_percent

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)


def confidence_table(results: Sequence[Certificates], intervals: bool = False) -> Table:
    """The share of inputs with p_A of at least p, for each run whose p_A is known (`p_ecdf`).

    `intervals` adds 95 % intervals over the choice of inputs (`share_intervals`).
    """
    rows: list[tuple[str, ...]] = []
    notes = []
    for c, label in zip(results, labels_of(results), strict=True):
        if not has_confidence(c):
            notes.append(f"{label}: p_A is not known: {why_unknown(c)}")
            continue
        shares = p_ecdf(c, LEVELS)
        cells = [in_percent(share, proved(results)) for share in shares.tolist()]
        if intervals:
            ends = share_intervals(shares, c.rows)
            cells = [
                Cell(cell, around=(in_percent(each.low), in_percent(each.high)))
                for cell, each in zip(cells, ends, strict=True)
            ]
        rows.append((label, inputs_cell(c), *cells))
    if not rows:
        raise no_confidence(results, "a table")
    known = [c for c in results if has_confidence(c)]
    notes += reading_notes(results)
    if any(not c.labelled for c in results):
        notes.append("inputs without labels count where they are answered, right or wrong")
    notes += input_notes(known)
    if len({c.sigma for c in known}) > 1:
        notes.append("the runs differ in sigma: more noise makes every classifier less confident")
    notes += budget_notes(known) + settings_notes(known)
    return Table(
        ("run", "inputs"),
        tuple(rows),
        tuple(f"{p:g}" for p in LEVELS),
        tuple(notes),
        group=f"{'correct' if any(c.labelled for c in known) else 'answered'} (%) with confidence of at least p",
        symbol="p",
        caption="Confidence: inputs by the lower bound of p_A, the probability of the answer under noise",
    )
