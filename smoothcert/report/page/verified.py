"""Which stores were verified, and whether they still are what was verified."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.report.read.certificates import Certificates
from smoothcert.runs.verified import vouched


def verified(results: Sequence[Certificates], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Label and verdict of each run; nothing if no run was ever verified."""
    found = [vouched(c.source) if c.manifest else None for c in results]
    if not any(found):
        return []
    return [(label, text or "not verified") for label, text in zip(labels, found, strict=True)]
