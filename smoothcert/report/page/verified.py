"""What `verified.json` in each store says, and whether it is about the rows that are there. It proves nothing alone."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.report.read.certificates import Certificates
from smoothcert.runs.verified import vouched


def verified(results: Sequence[Certificates], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Label and recorded verdict of each store, since a log cannot have one; nothing if no store has a record."""
    found = [
        (label, vouched(c.source)) for label, c in zip(labels, results, strict=True) if c.manifest
    ]
    if not any(text for _, text in found):
        return []
    return [
        (label, f"according to verified.json in the store: {text}" if text else "no record")
        for label, text in found
    ]
