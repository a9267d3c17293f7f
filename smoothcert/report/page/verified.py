"""What `verified.json` in each store says, and whether it is about the rows that are there. It proves nothing alone."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.report.read.certificates import Certificates
from smoothcert.runs.verified import vouched


def verified(results: Sequence[Certificates], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Label and recorded verdict of each run; nothing if no run has a record."""
    found = [vouched(c.source) if c.manifest else None for c in results]
    if not any(found):
        return []
    return [
        (label, f"according to verified.json in the store: {text}" if text else "no record")
        for label, text in zip(labels, found, strict=True)
    ]
