"""Labels of a folder of pictures: from its sub-folders, from a CSV file, or none."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from smoothcert.data.dataset import UNLABELLED
from smoothcert.errors import DataError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
WITHOUT = "or take the pictures without labels, by the option labels=none"


@dataclass(frozen=True)
class Labels:
    values: np.ndarray  # [N] int64
    classes: int
    names: tuple[str, ...] = ()
    by_name: bool = (
        False  # numbered by the names of the network's classes, not by the order of their own
    )


def no_labels(count: int, classes: int | None) -> Labels:
    return Labels(np.full(count, UNLABELLED, np.int64), classes or 0)


def from_folders(
    root: Path, files: Sequence[PurePosixPath], classes: int | None, known: Sequence[str] = ()
) -> Labels:
    """The first folder of each path is its class, numbered by its place in the order of names.

    Where the network's classes have the `known` names, and the folders have such names, these say the number.
    Where folders of some classes are missing, numbers by order would be wrong: then only names that are numbers are
    taken.
    """
    names = sorted({path.parts[0] for path in files if len(path.parts) > 1})
    loose = [path for path in files if len(path.parts) == 1]
    if loose:
        raise DataError(
            f"{root}: expected one sub-folder per class, found {len(names)} with pictures (such as {names[0]}) and "
            f"beside them {len(loose)} loose pictures (such as {loose[0]}): move them, write {root / 'labels.csv'} "
            f"(columns file,label), {WITHOUT}"
        )
    if len(names) == 1:
        raise DataError(
            f"{root}: expected one sub-folder per class, found {names[0]} alone: if it is no class, name it itself "
            f"(folder:{root / names[0]}), {WITHOUT}"
        )
    named = bool(known) and all(
        _meant(known, names).values()
    )  # the network's classes may be named 1, 2, 3
    if not named and all(name.isascii() and name.isdecimal() and len(name) < 10 for name in names):
        numbers = [int(name) for name in names]
        if (
            classes is not None
            and len(set(numbers)) == len(names) < classes
            and max(numbers) < classes
        ):
            return Labels(np.array([int(path.parts[0]) for path in files], np.int64), classes)
        wrong = [
            name for place, name in enumerate(names) if int(name) != place
        ]  # such as 0, 1, 10, 2
        if wrong:
            raise DataError(
                f"{root}: the class folders have numbers for names, but by the order of names {wrong[0]} would be "
                f"class {names.index(wrong[0])}: say how many classes the network has if there are more, write "
                f"{root / 'labels.csv'} (columns file,label), {WITHOUT}"
            )
    return numbered(root, [path.parts[0] for path in files], classes, known)


def from_csv(
    path: Path,
    root: Path,
    files: Sequence[PurePosixPath],
    classes: int | None,
    known: Sequence[str] = (),
) -> Labels:
    """Columns `file` (relative to `root`) and `label`, a class number or a class name; one row for each picture."""
    rows = _rows(path)
    there = {str(file): i for i, file in enumerate(files)}
    texts: dict[int, str] = {}
    for line, file, label in rows:
        where = f"{path}, line {line}"
        parts = PurePosixPath(file).parts
        if ".." in parts or file.startswith("/"):
            raise DataError(f"{where}: expected a file below {root}, found '{file}'")
        place = there.get("/".join(parts))
        if place is None:
            raise DataError(f"{where}: there is no picture '{file}' in {root}")
        if place in texts:
            raise DataError(
                f"{where}: '{file}' has a label already: leave one row for each picture"
            )
        if not label:
            raise DataError(f"{where}: '{file}' has no label")
        texts[place] = label
    if missing := [str(file) for i, file in enumerate(files) if i not in texts]:
        shown = ", ".join(missing[:3])
        raise DataError(
            f"{path}: expected a row for each of {len(files)} pictures, found none for {len(missing)} of them ({shown}"
            f"{', ...' if len(missing) > 3 else ''}): add them, {WITHOUT}"
        )
    ordered = [texts[i] for i in range(len(files))]
    numbers = [text.isascii() and text.isdecimal() for text in ordered]
    if all(numbers):
        if any(
            places not in ([], [int(text)]) for text, places in _meant(known, set(ordered)).items()
        ):
            raise DataError(
                f"{path}: the network's classes have numbers for names, and others than their places from 0 on "
                f"({', '.join(known[:5])}): labels could mean either; write the names with a word, {WITHOUT}"
            )
        return _numbered(path, ordered, files, classes)
    if any(numbers) or any(text.startswith("-") and text[1:].isdecimal() for text in ordered):
        odd = ordered[numbers.index(False)]
        raise DataError(
            f"{path}: expected class numbers from 0 on, or names, for all pictures; found '{odd}' among them"
        )
    return numbered(path, ordered, classes, known)


def _numbered(
    path: Path, texts: list[str], files: Sequence[PurePosixPath], classes: int | None
) -> Labels:
    limit = classes or 1_000_000
    for text, file in zip(texts, files, strict=True):
        if len(text) > 9 or int(text) >= limit:
            raise DataError(
                f"{path}: expected classes from 0 to {limit - 1}, found {text[:20]} for '{file}'"
            )
    values = np.array(texts, np.int64)
    return Labels(values, classes or int(values.max()) + 1)


def numbered(
    where: Path | str, texts: Sequence[str], classes: int | None, known: Sequence[str]
) -> Labels:
    """Class names as numbers: those of the network's classes, if it has such names, or by their order.

    Their order is that of the network only if all of its classes are there.
    """
    names = sorted(set(texts))
    places = _meant(known, names)
    strange = [name for name in names if not places[name]]
    if known and not strange:
        if doubtful := [name for name in names if len(places[name]) > 1]:
            shown = " and ".join(f"{place} ({known[place]})" for place in places[doubtful[0]])
            raise DataError(
                f"{where}: {doubtful[0]!r} may be class {shown} of the network: write the network's class numbers into "
                f"labels.csv (columns file,label), {WITHOUT}"
            )
        return Labels(
            np.array([places[text][0] for text in texts], np.int64),
            len(known),
            tuple(known),
            by_name=True,
        )
    if known and len(strange) < len(names):
        raise DataError(
            f"{where}: expected names of the network's classes, found {strange[0]!r} among them, which is none: it has "
            f"{', '.join(known[:5])}{', ...' if len(known) > 5 else ''}"
        )
    if classes is not None and len(names) != classes:
        raise DataError(
            f"{where}: expected the {classes} classes of the network, found {len(names)} names (such as {names[0]}), "
            "and cannot know which class is which: write the network's class numbers into labels.csv (columns "
            f"file,label), {WITHOUT}"
        )
    if odd := [name for name in names if _NUMBER.fullmatch(name) and not name.isdecimal()]:
        raise DataError(
            f"{where}: expected class numbers such as 0, 1, 2, or names, found {odd[0]!r}, whose place in the order of "
            "names is not that of the number: write whole numbers from 0 on"
        )
    place_of = {name: place for place, name in enumerate(names)}
    return Labels(np.array([place_of[text] for text in texts], np.int64), len(names), tuple(names))


def require_order(where: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse labels that are numbers of classes which the network has by the same names in another order."""
    meant = _meant(known, names)
    for place, name in enumerate(names):
        if meant[name] and place not in meant[name]:
            raise DataError(
                f"{where}: class {place} is {name!r} in the data, which is class {meant[name][0]} of the network: "
                "labels would mean other classes; give the data the network's class numbers, or leave the labels out"
            )


def _meant(known: Sequence[str], names: Collection[str]) -> dict[str, list[int]]:
    """The classes of the network that each name may mean. If all names have one as they are written, case matters.

    A class of ImageNet has several names with commas between them: all of them together are meant, or any. Two classes
    may share one: crane is a bird and a machine.
    """
    found: dict[str, list[int]] = {}
    for spelt in (str, str.casefold):
        places: dict[str, list[int]] = {}
        for place, name in enumerate(known):
            for one in {spelt(name), *(spelt(part.strip()) for part in name.split(","))}:
                places.setdefault(one, []).append(place)
        found = {name: places.get(spelt(name), []) for name in names}
        if all(found.values()):
            break
    return found


def _rows(path: Path) -> list[tuple[int, str, str]]:
    """(line, file, label) of each row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = reader.fieldnames or []
            if header.count("file") != 1 or header.count("label") != 1:
                raise DataError(
                    f"{path}: expected a first line with the columns file,label, found {','.join(header)[:80]!r}"
                )
            return [
                (reader.line_num, row["file"] or "", (row["label"] or "").strip()) for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path}: expected a CSV file with the columns file,label ({error})"
        ) from error
