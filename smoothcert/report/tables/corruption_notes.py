"""Which types of corruption means are over, and why they should not be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothcert.data.corruptions import CORRUPTIONS
from smoothcert.report.tables.notes import ROUNDED, norm_notes

if TYPE_CHECKING:
    from smoothcert.report.tables.corruptions import Corrupted


def corruption_notes(entries: Sequence[Corrupted], rounded: bool) -> list[str]:
    """Types that are in no mean or missing, other numbers of inputs, other norms."""
    notes = _left_out(entries) + _missing(entries)
    sizes = sorted({entry.certificates.rows for entry in entries})
    if len(sizes) > 1:
        notes.append(f"the logs have between {sizes[0]} and {sizes[-1]} inputs each")
    return notes + norm_notes([entry.certificates for entry in entries]) + ([ROUNDED] if rounded else [])


def _left_out(entries: Sequence[Corrupted]) -> list[str]:
    """A note for each benchmark on the types that are here but in no mean."""
    notes = []
    for benchmarks in dict.fromkeys(entry.benchmarks for entry in entries):
        others = {e.corruption for e in entries if e.benchmarks == benchmarks and not e.in_means}
        over = f", which are over the {_types_of(benchmarks)}" if benchmarks else ""
        if others:
            notes.append(f"left out of the means{over}: {', '.join(sorted(others))}")
    return notes


def _types_of(benchmarks: tuple[str, ...]) -> str:
    return f"{len(CORRUPTIONS[benchmarks[0]])} types of {' or '.join(benchmarks)}"


def _missing(entries: Sequence[Corrupted]) -> list[str]:
    """A note for each model and severity that lacks types which others have."""
    types = {entry.corruption for entry in entries if entry.in_means}
    groups: dict[tuple[str, int | None], set[str]] = {}
    for entry in entries:
        groups.setdefault((entry.model, entry.severity), set()).add(entry.corruption)
    return [
        f"{model}{'' if severity is None else f', severity {severity}'}: {len(types - own)} of {len(types)} "
        f"corruption types are missing ({', '.join(sorted(types - own)[:3])}{', ...' if len(types - own) > 3 else ''})"
        for (model, severity), own in groups.items()
        if types - own
    ]
