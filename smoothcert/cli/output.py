"""What several commands print and read alike."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smoothcert import __version__
from smoothcert.errors import ConfigError
from smoothcert.runs.remote import shown
from smoothcert.runs.selection import Selection

_LONGEST_NAME = 200  # file systems take 255 bytes, and files beside the store add to it


def print_json(document: Mapping[str, Any]) -> None:
    """The one document of a command with `--json`, in ASCII, which no terminal and no encoding takes amiss."""
    print(json.dumps({"smoothcert": __version__, **_plain(document)}, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """What JSON has: null for a number that is none, text for a path, lists for arrays and tuples."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, str | Path):
        return shown(value.as_posix() if isinstance(value, Path) else value)
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of cells as columns of a plain text table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def selected(subset: Mapping[str, Any], shard: str) -> Selection:
    """The images that are asked for, of which this process takes a shard: i/N, or auto."""
    if shard == "auto":
        return Selection(**subset, shard=None)
    part, slash, parts = shard.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal()):
        raise ConfigError(f"shard must be auto or i/N, for example 0/4, found {shard!r}")
    return Selection(**subset, shard=int(part), shards=int(parts))


def check_name(name: str) -> str:
    if Path(name).name != name or name.startswith("."):
        raise ConfigError(f"--name is the name of one folder, found {name!r}")
    if len(name.encode()) > _LONGEST_NAME or not name.isprintable():
        raise ConfigError(
            f"--name has at most {_LONGEST_NAME} bytes and no control characters, found {name[:40]!r}"
        )
    return name
