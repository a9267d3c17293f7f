"""Which tar files a place means: one, those of a folder, or those of a pattern such as train-{000000..000146}.tar."""

from __future__ import annotations

import re
from pathlib import Path

from smoothcert.data.places import SPLIT_NAMES, find, named_split, places
from smoothcert.errors import DataError

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MOST = 1_000_000  # files that one pattern may mean
_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


def shards_of(text: str, split: str, data_dir: Path | None) -> tuple[Path, list[Path]]:
    """The place, and the tar files of a split in the order of their names.

    A folder may have one folder for each split, or tar files with the split as a word of their names, such as
    imagenet-train-000000.tar; else all of its files are one set. A single file and a pattern always are.
    """
    if _RANGE.search(text):
        return _of_pattern(text, data_dir)
    place = find(text, data_dir)
    if not place.is_dir():
        return place, [place]
    below = named_split(
        sorted(entry.name for entry in place.iterdir() if entry.is_dir()), split, str(place)
    )
    root = place / below if below else place
    files = sorted(
        entry for entry in root.iterdir() if entry.is_file() and not entry.name.startswith(".")
    )
    if packed := [file for file in files if file.name.endswith(_PACKED)]:
        raise DataError(
            f"{packed[0]}: expected tar files that are not compressed: decompress it first, or remove it"
        )
    tars = [file for file in files if file.suffix == ".tar"]
    if not tars:
        raise DataError(f"{root}: expected tar files of pictures (.tar), found none")
    return place, tars if below else _of_split(tars, split, place)


def _of_pattern(text: str, data_dir: Path | None) -> tuple[Path, list[Path]]:
    for place in places(text, data_dir):
        files = list(map(Path, _expanded(str(place))))
        missing = [file for file in files if not file.is_file()]
        if len(missing) < len(files):
            if missing:
                raise DataError(
                    f"{text}: expected {len(files)} tar files, found {missing[0]} and others missing"
                )
            return place, files
    raise DataError(f"{text}: there is no such tar file here or below the data directories")


def _expanded(text: str) -> list[str]:
    """All names that a pattern means; leading zeros are kept."""
    found = [text]
    while match := _RANGE.search(found[0]):
        first, last, width = int(match[1]), int(match[2]), len(match[1])
        if not first <= last < first + _MOST // len(found):
            raise DataError(
                f"{text}: expected a range such as {{000000..000146}}, found {match[0]}"
            )
        numbers = [f"{number:0{width}}" for number in range(first, last + 1)]
        found = [_RANGE.sub(number, one, count=1) for one in found for number in numbers]
    return found


def _of_split(files: list[Path], split: str, place: Path) -> list[Path]:
    """By the split that is a word of each name; all of them where none has such a word."""
    words = [
        next((word for word in re.split(r"[-_.]", file.stem) if word in SPLIT_NAMES), "")
        for file in files
    ]
    chosen = named_split(sorted(set(words)), split, str(place))
    if chosen is None:
        return files
    if "" in words:
        raise DataError(
            f"{place}: expected a split in the name of each tar file or of none, found {files[words.index('')].name} "
            f"beside those of {chosen}: move it elsewhere"
        )
    return [file for file, word in zip(files, words, strict=True) if word == chosen]
