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
    """A note for each benchmark on the types that no model has, and for each model and severity that lacks more."""
    notes = []
    for benchmarks in dict.fromkeys(entry.benchmarks for entry in entries):
        groups: dict[tuple[str, int | None], set[str]] = {}
        for entry in entries:
            if entry.benchmarks == benchmarks and entry.in_means:
                groups.setdefault((entry.model, entry.severity), set()).add(entry.corruption)
        present = {kind for own in groups.values() for kind in own}
        types = list(CORRUPTIONS[benchmarks[0]]) if benchmarks else sorted(present)
        absent = [kind for kind in types if kind not in present]
        if present and absent:
            notes.append(_lacking(absent, types, benchmarks))
        for (model, severity), own in groups.items():
            if more := [kind for kind in types if kind in present - own]:
                who = model if severity is None else f"{model}, severity {severity}"
                notes.append(f"{who}: {_lacking(more + absent, types, benchmarks)}")
    return notes


def _lacking(missing: Sequence[str], types: Sequence[str], benchmarks: tuple[str, ...]) -> str:
    """How many are missing, and which, unless the benchmark is one of two: both have 15 types."""
    whole = f"the {_types_of(benchmarks)}" if benchmarks else f"{len(types)} corruption types"
    named = f" ({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''})" if len(benchmarks) < 2 else ""
    verb = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {whole} {verb} missing{named}: means are over the others"
