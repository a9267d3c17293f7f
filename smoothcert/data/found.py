"""What looks like data below a folder, with the words by which it is asked for. Quick: few names are looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from smoothcert.data.folder import SUFFIXES
from smoothcert.data.places import SPLIT_NAMES

_LOOK = 200  # entries of one folder; the first tell what it is


def found_below(root: Path) -> Iterator[tuple[str, str]]:
    """(spec, what it seems to be) of the folder itself, or of the files and folders in it."""
    own = list(_seen(root))
    yield from own
    if not own:
        for entry in _entries(root):
            yield from _seen(Path(entry.path))


def _seen(place: Path) -> Iterator[tuple[str, str]]:
    if place.is_file():
        if place.suffix == ".npz":
            yield f"npz:{place}", "arrays"
        elif place.suffix == ".tar":
            yield f"tar:{place}", "a tar file"
        return
    entries = _entries(place)
    names = {entry.name for entry in entries}
    if names & {"dataset_dict.json", "state.json"}:
        yield f"hf-dataset:{place}", "saved by datasets"
        return
    if {f"{name}.npz" for name in SPLIT_NAMES} & names:
        yield f"npz:{place}", "arrays, one file per split"
        return
    splits = [Path(entry.path) for entry in entries if entry.is_dir() and entry.name in SPLIT_NAMES]
    if shards := [folder for folder in splits or [place] if _is_shards(folder)]:
        shown = f"{', '.join(folder.name for folder in shards)}: " if splits else ""
        yield f"tar:{place}", f"{shown}tar files"
        return
    told = [words for folder in splits or [place] if (words := _pictures(folder))]
    if told:
        shown = f"{', '.join(folder.name for folder in splits)}: " if splits else ""
        yield f"folder:{place}", f"{shown}{told[0]}"


def _is_shards(folder: Path) -> bool:
    """Whether most of what a folder has are tar files."""
    entries = _entries(folder)
    return 2 * sum(entry.name.endswith(".tar") for entry in entries) > len(entries)


def _pictures(folder: Path) -> str:
    """In words what pictures a folder has; empty for none."""
    entries = _entries(folder)
    if any(entry.name == "labels.csv" for entry in entries):
        return "pictures with labels.csv"
    classes = [entry for entry in entries if entry.is_dir()]
    if classes and any(_is_picture(inner) for inner in _entries(Path(classes[0].path))):
        return f"pictures in {'at least ' if len(entries) == _LOOK else ''}{len(classes)} class folders"
    return "pictures without labels" if any(map(_is_picture, entries)) else ""


def _is_picture(entry: os.DirEntry[str]) -> bool:
    return Path(entry.name).suffix.lower() in SUFFIXES


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Some entries of a folder by name; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            shown = (entry for entry in entries if not entry.name.startswith("."))
            return sorted(islice(shown, _LOOK), key=lambda entry: entry.name)
    except OSError:
        return []
