"""The record that `smoothcert verify` leaves in a store, and whether it is still about the rows that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from smoothcert.runs.store import ResultStore

RECORD = "verified.json"


def read_record(folder: Path) -> dict[str, Any] | None:
    """None where there is none, or none that can be read: it vouches for nothing then."""
    try:
        values = json.loads((folder / RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def vouched(folder: Path) -> str | None:
    """What is known of the verification of a store, in one line; None if it never was verified."""
    record = read_record(folder)
    if record is None:
        return None
    if record.get("fingerprint") != ResultStore(folder).fingerprint():
        return "verified once, but changed since: verify it again"
    return f"{record.get('text')} (smoothcert {record.get('smoothcert')}, {record.get('date')})"
