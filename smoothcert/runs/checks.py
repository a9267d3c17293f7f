"""checks.jsonl of a store: how many answers were evaluated a second time, and how many of them differed.

One line for each process that ended by itself. It decides nothing: a network that answers otherwise is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from smoothcert.errors import StoreError
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
    """The lines of a store, by the store that first had them."""
    try:
        made = json.loads((folder / "manifest.json").read_bytes())["environment"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    own = sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]
    found: dict[str, list[dict[str, Any]]] = {}
    for line in read_checks(folder):
        found.setdefault(str(line.get("of", own)), []).append(line)
    return found


def read_checks(folder: Path) -> list[dict[str, Any]]:
    """The lines, which anyone may have written; one that is being written is passed over."""
    path = folder / "checks.jsonl"
    try:
        texts = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
    lines = []
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
            whole = all(type(line[name]) is int for name in ("rechecked", "differ"))
            if not (whole and 0 <= line["differ"] <= line["rechecked"]):
                raise ValueError(text)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StoreError(
                f"{path}, line {number}: expected how many answers were evaluated again and how many differed, found "
                f"{text[:60]!r}: delete that line"
            ) from None
        lines.append(line)
    return lines


def _append(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    path = folder / "checks.jsonl"
    try:
        with path.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
    except OSError as error:
        raise write_error(path, error) from error


def checks_in_words(folder: Path) -> str | None:
    """The sums of all processes; None where nothing was noted."""
    lines = read_checks(folder)
    rechecked, differ = (sum(line[name] for line in lines) for name in ("rechecked", "differ"))
    if not rechecked:
        return None
    return f"{rechecked:,} {noun(rechecked, 'answer')} evaluated again, {differ:,} differed"
