"""Run folders and certificate stores below a folder, in the order in which people count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from smoothcert.errors import StoreError

_STARTED = (".lock", "environment.jsonl", "metrics.jsonl", "state.pt")
"""Files of a training beside config.yaml, a name that other programs use too."""


def natural(path: Path) -> tuple[list[str | float], str]:
    """Sorts seed2 before seed10, and noise_0.25 before noise_0.5."""
    parts = re.split(r"(\d+(?:\.\d+)?)", path.name)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)], path.name


def stores_of(run: Path) -> list[Path]:
    """The certificate stores of a run folder, also those that have lost their manifest: they must not be overlooked."""
    folders = {
        path.parent
        for name in ("manifest.json", "part-*.tsv")
        for path in run.glob(f"certify/*/{name}")
    }
    return sorted(folders, key=natural)


def attack_stores_of(run: Path) -> list[Path]:
    """The stores of attacks of a run folder, likewise."""
    folders = {
        path.parent
        for name in ("manifest.json", "part-*.tsv")
        for path in run.glob(f"attack/*/{name}")
    }
    return sorted(folders, key=natural)


def is_attack_store(folder: Path) -> bool:
    """Attacks are told from certificates by the folder that their store lies in."""
    return folder.resolve().parent.name == "attack" and (folder / "manifest.json").is_file()


def find_results(folder: Path) -> list[Path]:
    """The run folders and lone stores at or below a folder. Links are followed, but no place is entered twice."""
    return list(_walk(folder, set()))


def _walk(folder: Path, seen: set[Path]) -> Iterator[Path]:
    place = folder.resolve()
    if place in seen:
        return
    seen.add(place)
    if _is_run(folder) or _is_store(folder):
        yield folder
        return
    try:
        below = [
            entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.is_dir()
        ]
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be searched for runs ({error.strerror}); make it readable, or name the runs themselves"
        ) from error
    for entry in sorted(below, key=natural):
        yield from _walk(entry, seen)


def _is_run(folder: Path) -> bool:
    def has(name: str) -> bool:
        return (folder / name).is_file()

    trained = has("model.json") and has("weights.safetensors")
    return trained or (has("config.yaml") and any(map(has, _STARTED))) or bool(stores_of(folder))


def _is_store(folder: Path) -> bool:
    return (
        not is_attack_store(folder)  # it holds no certificates
        and (folder / "manifest.json").is_file()
        and any(folder.glob("part-*.tsv"))
    )
