"""The one parser of tab-separated results, ours and the field's: rows -> typed columns, errors with file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import StoreError

Column = NDArray[Any]

CHECK = "check"  # of a row under its manifest
COLUMNS = (
    *("idx", "label", "predict", "radius", "correct", "time"),  # the field's six: what is claimed
    *("counts0", "counts", "path", CHECK),  # and the counts that prove it
)
"""Of our own stores of certificates. `path` is how often the class that counts0 selects had been
counted at each look at the estimation samples."""


def whole(text: str) -> int:
    """int(), but `1_000` is refused: Python reads it as a number, though no log writes numbers so."""
    return int(_plain(text))


def number(text: str) -> float:
    return float(_plain(text))


def _plain(text: str) -> str:
    if "_" in text:
        raise ValueError(text)
    return text


REQUIRED: dict[str, Callable[[str], Any]] = {
    "idx": whole,
    "label": whole,
    "predict": whole,
    "radius": number,
    "correct": whole,
}
OPTIONAL: dict[str, Callable[[str], Any]] = {
    "n0": str,
    "n": str,
    "counts0": str,
    "counts": str,
    "p_lower": lambda text: number(text or "nan"),
}
"""What logs may have too."""
_FEW = ("label", "predict", "correct")
"""Columns of few different texts."""


class NoCertificates(StoreError):
    """Nothing is wrong with the place; it only holds no certificate yet."""


def nothing_yet(place: Path) -> NoCertificates:
    return NoCertificates(f"{place}: no certificates yet; wait for the first, or certify the run")


@dataclass(frozen=True)
class Lines:
    """The complete lines of one file, not yet converted."""

    path: Path
    header: list[str]
    texts: list[str]  # one for each row
    numbers: list[int]  # line number of each row
    torn: bool  # the last line had no newline and was left out
    size: int  # bytes of the complete lines, the header's too
    last: int  # number of the last complete line

    @cached_property
    def fields(self) -> list[list[str]]:
        """The cells of each row."""
        return [text.split("\t") for text in self.texts]

    def cells(self) -> list[str]:
        """The cells of all rows one after another, as many of each as the header has: quicker than row by row."""
        if set(map(str.count, self.texts, repeat("\t"))) - {len(self.header) - 1}:
            for row in range(len(self.texts)):
                self.checked(row)
        return "\t".join(self.texts).split("\t") if self.texts else []

    def columns(self) -> dict[str, list[str]]:
        """The cells of each column."""
        cells, width = self.cells(), len(self.header)
        return {name: cells[place::width] for place, name in enumerate(self.header)}

    def rows(self) -> Iterator[dict[str, str]]:
        """The rows as text by column."""
        for row in range(len(self.fields)):
            yield dict(zip(self.header, self.checked(row), strict=True))

    def checked(self, row: int) -> list[str]:
        """The cells of a row, as many as the header has."""
        fields = self.fields[row]
        if len(fields) != len(self.header):
            raise self.error(row, f"expected {len(self.header)} columns, found {len(fields)}")
        return fields

    def error(self, row: int, problem: str) -> StoreError:
        return StoreError(
            f"{self.path}, line {self.numbers[row]}: {problem}; restore the file from a copy, or delete it: the same "
            "command makes its rows again"
        )


def read_lines(
    path: Path, required: Sequence[str] = tuple(REQUIRED), after: Lines | None = None
) -> Lines:
    """Split a log into rows. A last line without a newline is still being written, or was cut by a crash.

    Of a file that was read `after` a moment ago, only the rows that were added since.
    """
    start, count = (0, 0) if after is None else (after.size, after.last)
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read()
        text = (content.replace(b"\r\n", b"\n") if b"\r" in content else content).decode(
            "utf-8-sig"
        )
    except UnicodeDecodeError:
        raise StoreError(f"{path}: expected a tab-separated text log, found binary data") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from None
    *lines, last = text.split("\n")
    size = start + content.rfind(b"\n") + 1
    if after is None or not after.size:
        if not lines and "idx".startswith(last[:3]):  # empty, or torn inside the header
            return Lines(path, list(required), [], [], bool(last), 0, 0)
        header, first = _header(path, (lines or [last])[0], required), 1
    else:
        header, first = after.header, 0
    texts = list(filter(None, lines))[first:]
    numbers = list(compress(range(count + 1, count + len(lines) + 1), lines))[first:]
    return Lines(path, header, texts, numbers, bool(last), size, count + len(lines))


def _header(path: Path, line: str, required: Sequence[str]) -> list[str]:
    header = [name.strip() for name in line.split("\t")]
    missing = [name for name in required if name not in header]
    if missing:
        raise StoreError(
            f"{path}: expected a tab-separated header with the columns {' '.join(required)}, "
            f"found '{line[:80]}' (missing: {' '.join(missing)}); is it a certification log?"
        )
    if repeated := [name for name in (*REQUIRED, *OPTIONAL) if header.count(name) > 1]:
        raise StoreError(
            f"{path}: found the column {repeated[0]} twice, and cannot know which one is meant"
        )
    return header


def typed_columns(lines: Lines) -> dict[str, Column]:
    """Convert the known columns of one file, and refuse what no certification can have written."""
    cells, width = lines.cells(), len(lines.header)
    columns = {
        name: converted(lines, name, kind, cells[lines.header.index(name) :: width])
        for name, kind in (REQUIRED | OPTIONAL).items()
        if name in lines.header
    }
    label, predict, radius, correct = (
        columns[name] for name in ("label", "predict", "radius", "correct")
    )
    labelled = not (
        len(label) and (label == -1).all()
    )  # without labels, certificates have no accuracy
    agree = (correct == 1) == ((predict == label) & labelled)
    checks = (
        ("idx", columns["idx"] >= 0, "an index from 0 on"),
        (
            "label",
            (label >= 0) | (not labelled),
            "a class from 0 on, or -1 in all rows for data without labels",
        ),
        ("predict", predict >= -1, "a class, or -1 for an abstention"),
        ("radius", np.isfinite(radius) & (radius >= 0), "a finite radius of at least 0"),
        ("correct", (correct == 0) | (correct == 1), "0 or 1"),
        (
            "correct",
            agree,
            "1 exactly where predict equals label" if labelled else "0, since there are no labels",
        ),
    )
    require_sound(lines, checks)
    columns["correct"] = correct == 1
    return columns


def require_sound(lines: Lines, checks: Sequence[tuple[str, NDArray[np.bool_], str]]) -> None:
    """Refuse the first row that fails a check: (column, whether each row is sound, what was expected)."""
    for name, sound, expected in checks:
        if not sound.all():
            raise _bad_value(lines, int(np.argmin(sound)), name, expected)


def row_key(lines: Lines, row: int, keys: Sequence[str]) -> Any:
    """What names a row of a store: its index, or its index and its radius."""
    found = tuple(_cell(lines, row, name, whole if name == "idx" else number) for name in keys)
    return found if len(found) > 1 else found[0]


def _cell(lines: Lines, row: int, name: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(lines.checked(row)[lines.header.index(name)])
    except ValueError:
        raise _bad_value(
            lines, row, name, "a whole number" if kind is whole else "a number"
        ) from None


def merge(parts: Sequence[dict[str, Column]], source: Path) -> dict[str, Column]:
    """Join the parts, ordered by index. A repeated index is fine as long as every copy says the same."""
    if len({bool((part["label"] < 0).any()) for part in parts if len(part["label"])}) > 1:
        raise StoreError(
            f"{source}: some parts have labels and others none, so that they are about different data"
        )
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in shared}
    if np.all(np.diff(columns["idx"]) > 0):
        return columns
    idx, first, place = np.unique(columns["idx"], return_index=True, return_inverse=True)
    if len(idx) < len(place):
        for name, column in columns.items():
            kept = column[first][place]
            differs = column != kept
            if column.dtype.kind == "f":
                differs &= ~(np.isnan(column) & np.isnan(kept))
            if differs.any():
                row = int(np.argmax(differs))
                raise StoreError(
                    f"{source}: index {columns['idx'][row]} is certified twice with different results "
                    f"({name} {kept[row]} and {column[row]}); keep the row that belongs to this run"
                )
    return {name: column[first] for name, column in columns.items()}


def converted(lines: Lines, name: str, kind: Callable[[str], Any], cells: list[str]) -> Column:
    """The cells of one column as numbers, or as they are."""
    if kind is str:
        return np.array(cells, dtype=object)
    dtype = np.int64 if kind is whole else np.float64
    quick = kind
    try:
        if name in _FEW:  # each text is converted once
            quick = {cell: kind(cell) for cell in set(cells)}.__getitem__
        elif "_" not in "".join(cells) and all(cells):
            # Python's own conversions take a third of the time, and say the same but for underscores and empty cells.
            quick = int if kind is whole else float
        return np.fromiter(map(quick, cells), dtype, len(cells))
    except (ValueError, OverflowError):
        for row, cell in enumerate(cells):
            try:
                np.array(kind(cell), dtype=dtype)
            except (ValueError, OverflowError):
                raise _bad_value(
                    lines, row, name, "a whole number" if kind is whole else "a number"
                ) from None
        raise


def _bad_value(lines: Lines, row: int, name: str, expected: str) -> StoreError:
    found = lines.fields[row][lines.header.index(name)]
    return lines.error(row, f"column {name}: expected {expected}, found '{found}'")
