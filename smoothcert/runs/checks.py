"""checks.jsonl of a store: how many answers were evaluated a second time, and how many of them differed.

One line for each process that ended by itself. It decides nothing: a network that answers otherwise is refused.
"""

from __future__ import annotations

import json
from pathlib import Path

from smoothcert.files import write_error


def note_checks(folder: Path, shard: str, rechecked: int, differ: int) -> None:
    path = folder / "checks.jsonl"
    try:
        with path.open("a") as file:
            file.write(json.dumps({"shard": shard, "rechecked": rechecked, "differ": differ}) + "\n")
    except OSError as error:
        raise write_error(path, error) from error


def checks_in_words(folder: Path) -> str | None:
    """The sums of all processes; None where nothing was noted, or the file is damaged."""
    try:
        lines = [json.loads(line) for line in (folder / "checks.jsonl").read_text().splitlines()]
        rechecked, differ = (sum(int(line[name]) for line in lines) for name in ("rechecked", "differ"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return f"{rechecked:,} answers evaluated again, {differ:,} differed"
