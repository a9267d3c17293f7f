"""Where data may lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from smoothcert.errors import DataError

SPLITS = {
    "train": ("train",),
    "val": ("val", "validation", "valid"),
    "test": ("test", "val", "validation", "valid"),
}
"""The names under which a split may lie, the first that is there: many sets have no test images but validation ones."""
SPLIT_NAMES = {name for names in SPLITS.values() for name in names}


def roots(data_dir: Path | None) -> list[Path]:
    """Data directories in the order in which they are searched."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = (data_dir, os.environ.get("SMOOTHCERT_DATA"), Path(cache, "smoothcert"))
    return [Path(root).expanduser() for root in named if root]


def places(text: str, data_dir: Path | None) -> list[Path]:
    """What a path may mean: from here, or below a data directory."""
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long a name, or the home of nobody
        raise DataError(f"{text[:200]}: expected a path ({error})") from error
    return [path, *(root / path for root in roots(data_dir))]


def find(text: str, data_dir: Path | None) -> Path:
    """The place that a path means; it must be there."""
    looked = list(dict.fromkeys(places(text, data_dir)))  # an absolute path means one place
    found = next((place for place in looked if place.exists()), None)
    if found is None:
        raise DataError(
            f"{text}: no such file or folder; looked for " + " and ".join(map(str, looked))
        )
    return found


def named_split(names: list[str], split: str, where: str) -> str | None:
    """Which of the names is the split; None where none of them is a split, so that there is one set for all."""
    there = [name for name in names if name in SPLIT_NAMES]
    if not there:
        return None
    found = next((name for name in SPLITS[split] if name in there), None)
    if found is None:
        raise DataError(
            f"{where}: expected a split {' or '.join(SPLITS[split])}, found only {', '.join(there)}"
        )
    return found


def licence_below(folder: Path) -> str:
    """The first line of a licence file; empty where there is none."""
    files = sorted(path for path in folder.glob("LICEN[CS]E*") if path.is_file())
    lines = [
        line.strip()
        for path in files[:1]
        for line in path.read_text("utf-8", "replace")[:2000].splitlines()
    ]
    return next((line for line in lines if line), "")[:200]
