"""checks.jsonl of a store: how many answers were evaluated a second time, and how many of them differed.

One line for each process that ended by itself. It decides nothing: a network that answers otherwise is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from smoothcert.files import write_error
from smoothcert.progress import noun


def note_checks(folder: Path, shard: str, rechecked: int, differ: int) -> None:
    _append(folder, [{"shard": shard, "rechecked": rechecked, "differ": differ}])


def join_checks(folder: Path, sources: Iterable[Path]) -> None:
    """Add the lines of other stores; `of` says whose they are, so that none is added twice.

    A store is known by its environment, which no other process has had: the same wherever it is copied to.
    """
    there = _by_origin(folder)
    for source in sources:
        for origin, lines in _by_origin(source).items():
            known = there.setdefault(origin, [])
            new = lines[len(known) :]  # lines are only ever added
            if new:
                _append(folder, [{**line, "of": origin} for line in new])
            known += new


def _by_origin(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The readable lines of a store, by the store that first had them."""
    try:
        made = json.loads((folder / "manifest.json").read_bytes())["environment"]
        texts = (folder / "checks.jsonl").read_text().splitlines()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    own = sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]
    found: dict[str, list[dict[str, Any]]] = {}
    for text in texts:
        try:
            line = _read(text)
        except ValueError:  # it is being written, or damaged
            continue
        found.setdefault(str(line.get("of", own)), []).append(line)
    return found


def _read(text: str) -> dict[str, Any]:
    """A line that anyone may have written."""
    try:
        line = json.loads(text)
    except RecursionError:
        raise ValueError(text[:80]) from None
    if not (
        isinstance(line, dict)
        and all(type(line.get(name)) is int for name in ("rechecked", "differ"))
    ):
        raise ValueError(text[:80])
    return line


def _append(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    path = folder / "checks.jsonl"
    try:
        with path.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
    except OSError as error:
        raise write_error(path, error) from error


def checks_in_words(folder: Path) -> str | None:
    """The sums of all processes; None where nothing was noted, or the file is damaged."""
    try:
        lines = [_read(line) for line in (folder / "checks.jsonl").read_text().splitlines()]
    except (OSError, ValueError):
        return None
    rechecked, differ = (sum(line[name] for line in lines) for name in ("rechecked", "differ"))
    return f"{rechecked:,} {noun(rechecked, 'answer')} evaluated again, {differ:,} differed"
