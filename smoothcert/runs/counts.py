"""The class counts of stored rows, many rows at once: ``class:count,class:count,...``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_CELL = re.compile(r"(\d{1,15}:\d{1,15}(,\d{1,15}:\d{1,15})*)?", re.ASCII)
_PATH = re.compile(r"(\d{1,15}( \d{1,15})*)?", re.ASCII)
_SEPARATORS = str.maketrans(":,", "  ")
FLIPS, _FEW = 0.01, 3
"""At most this share of the answers to an input flips, or so many."""


class BadCell(ValueError):
    """A cell that holds no counts."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


@dataclass(frozen=True)
class Counts:
    """All entries of a column, row by row; the classes of a row rise."""

    rows: int
    row: Integers  # of each entry
    label: Integers
    count: Integers

    def total(self) -> Integers:
        return self._sums(np.ones(len(self.row), bool))

    def of(self, label: Integers) -> Integers:
        """How often the class `label` of each row was counted."""
        return self._sums(self.label == label[self.row])

    def top(self) -> Integers:
        """The most frequent class of each row, the lowest of several; -1 without counts."""
        order = np.lexsort((-self.label, self.count, self.row))
        found = np.full(self.rows, -1, np.int64)
        found[self.row[order]] = self.label[order]  # of several entries of a row the last stays
        return found

    def largest_but(self, label: Integers) -> Integers:
        """The largest count of any class but `label`."""
        others, found = self.label != label[self.row], np.zeros(self.rows, np.int64)
        np.maximum.at(found, self.row[others], self.count[others])
        return found

    def highest(self) -> Integers:
        """The highest class of each row; -1 without counts."""
        found = np.full(self.rows, -1, np.int64)
        np.maximum.at(found, self.row, self.label)
        return found

    def _sums(self, chosen: NDArray[np.bool_]) -> Integers:
        found = np.zeros(self.rows, np.int64)  # whole numbers: floats would lose digits
        np.add.at(found, self.row[chosen], self.count[chosen])
        return found


def read_counts(cells: Sequence[str]) -> Counts:
    for place, cell in enumerate(cells):
        if not _CELL.fullmatch(cell):
            raise BadCell(place)
    entries = ",".join(filter(None, cells)).translate(_SEPARATORS)
    label, count = np.fromstring(entries, np.int64, sep=" ").reshape(-1, 2).T
    row = np.repeat(np.arange(len(cells)), [cell.count(":") for cell in cells])
    falls = (np.diff(label) <= 0) & (np.diff(row) == 0)
    if falls.any():
        raise BadCell(int(row[falls.argmax()]))
    return Counts(len(cells), row, label, count)


def read_paths(cells: Sequence[str], looks: int) -> Integers:
    """``20 25 31`` -> the counts at the looks so far, -1 at those that were not reached."""
    found = np.full((len(cells), looks), -1, np.int64)
    for row, cell in enumerate(cells):
        if not _PATH.fullmatch(cell) or cell.count(" ") >= looks:
            raise BadCell(row)
        path = [int(count) for count in cell.split()]
        found[row, : len(path)] = path
    return found


def written(counts: Integers) -> str:
    """Of the classes that were seen, so that 1000 classes do not make long rows."""
    return ",".join(f"{label}:{counts[label]}" for label in np.flatnonzero(counts))


def class_counts(cell: str) -> dict[int, int]:
    """Of one cell that was read before."""
    pairs = (entry.split(":") for entry in cell.split(",") if entry)
    return {int(label): int(count) for label, count in pairs}


def top_class(cell: str) -> int:
    """The most frequent class of one cell, the lowest of several."""
    counts = class_counts(cell)
    return min(counts, key=lambda label: (-counts[label], label))


def within_flips(one: Mapping[str, Any], other: Mapping[str, Any], looks: Sequence[int]) -> bool:
    """Whether rounding explains that two rows of one input differ, which have the same noise.

    Networks round otherwise on other machines, and with other batch sizes: then a few answers flip.
    Rows may have stopped at different looks: then those count that both have reached.
    """
    paths = [list(map(int, row["path"].split())) for row in (one, other)]
    for look, a, b in zip(looks, *paths, strict=False):
        if abs(a - b) > _most(look):
            return False
    stages = ("counts0", "counts") if len(paths[0]) == len(paths[1]) else ("counts0",)
    for stage in stages:
        counts, others = class_counts(one[stage]), class_counts(other[stage])
        labels = counts.keys() | others.keys()
        flips = sum(abs(counts.get(label, 0) - others.get(label, 0)) for label in labels) / 2
        if flips > _most(sum(counts.values())):
            return False
    return True


def _most(samples: int) -> float:
    return max(_FEW, FLIPS * samples)
