"""Which types of corruption means are over, and why they should not be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothcert.data.corruptions import CORRUPTIONS
from smoothcert.report.notes import ROUNDED, norm_notes

if TYPE_CHECKING:
    from smoothcert.report.measures.corrupted import Corrupted


def corruption_notes(entries: Sequence[Corrupted], rounded: bool) -> list[str]:
    """Types that are in no mean, types and severities that are missing, other numbers of inputs, other norms."""
    benchmarks = _by_benchmark(entries)
    notes = [note for tell in (_left_out, _missing) for own in benchmarks for note in tell(own)]
    sizes = sorted({entry.certificates.rows for entry in entries})
    if len(sizes) > 1:
        notes.append(f"the logs have between {sizes[0]} and {sizes[-1]} inputs each")
    return (
        notes
        + norm_notes([entry.certificates for entry in entries])
        + ([ROUNDED] if rounded else [])
    )


def _by_benchmark(entries: Sequence[Corrupted]) -> list[list[Corrupted]]:
    each = dict.fromkeys(entry.benchmarks for entry in entries)
    return [[entry for entry in entries if entry.benchmarks == benchmarks] for benchmarks in each]


def _left_out(entries: Sequence[Corrupted]) -> list[str]:
    """A note on the types of a benchmark that are here but in no mean."""
    others = {entry.corruption for entry in entries if not entry.in_means}
    over = f", which are over the {_types_of(entries)}" if entries[0].benchmarks else ""
    return [f"left out of the means{over}: {', '.join(sorted(others))}"] if others else []


def _types_of(entries: Sequence[Corrupted]) -> str:
    """CIFAR-100-C has the types of CIFAR-10-C; logs do not name it, but have labels that CIFAR-10-C cannot have."""
    names = entries[0].benchmarks
    hundred = names == ("cifar10-c",) and any(
        entry.certificates.label.max() > 9 for entry in entries
    )
    return (
        f"{len(CORRUPTIONS[names[0]])} types of {'cifar100-c' if hundred else ' or '.join(names)}"
    )


def _missing(entries: Sequence[Corrupted]) -> list[str]:
    """A note on the types of a benchmark that no model has, and for each model and severity that lacks more."""
    notes = []
    groups: dict[tuple[str, int | None], set[str]] = {}
    for entry in entries:
        if entry.in_means:
            groups.setdefault((entry.model, entry.severity), set()).add(entry.corruption)
    present = {kind for own in groups.values() for kind in own}
    types = (
        list(CORRUPTIONS[entries[0].benchmarks[0]]) if entries[0].benchmarks else sorted(present)
    )
    absent = [kind for kind in types if kind not in present]
    if present and absent:
        notes.append(_lacking(absent, types, entries))
    for (model, severity), own in groups.items():
        if more := [kind for kind in types if kind in present - own]:
            who = model if severity is None else f"{model}, severity {severity}"
            notes.append(f"{who}: {_lacking(more + absent, types, entries)}")
    severities = sorted({severity for _, severity in groups if severity is not None})
    for model in dict.fromkeys(model for model, _ in groups):
        if gone := [str(severity) for severity in severities if (model, severity) not in groups]:
            notes.append(
                f"{model}: no certificates of severity {' or '.join(gone)}: means are over the others"
            )
    return notes


def _lacking(missing: Sequence[str], types: Sequence[str], entries: Sequence[Corrupted]) -> str:
    """How many are missing, and which, unless the benchmark is one of two: both have 15 types."""
    benchmarks = entries[0].benchmarks
    whole = f"the {_types_of(entries)}" if benchmarks else f"{len(types)} corruption types"
    named = (
        f" ({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''})"
        if len(benchmarks) < 2
        else ""
    )
    verb = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {whole} {verb} missing{named}: means are over the others"
