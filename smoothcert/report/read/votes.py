"""The class counts of stored rows, many rows at once: `class:count,class:count,...` -> what a certificate needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_CELL = re.compile(r"[0-9]{1,15}:[0-9]{1,15}(,[0-9]{1,15}:[0-9]{1,15})*")


class BadCounts(ValueError):
    """A cell that holds no class counts; `row` is its place."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


@dataclass(frozen=True)
class Votes:
    """Of each input: the class that the selection samples name, and how often the estimation samples name it."""

    selected: Integers  # the most frequent class, the lowest of several; -1 without samples
    top: Integers
    other: Integers  # the largest count of any other class
    n0: Integers
    n: Integers
    highest: Integers  # the highest class that was counted at all


def read_votes(counts0: NDArray[np.object_], counts: NDArray[np.object_]) -> Votes:
    row0, label0, count0 = _entries(counts0)
    row, label, count = _entries(counts)
    inputs = len(counts0)
    is_most = np.flatnonzero(count0 == _by_row(np.maximum, row0, count0, inputs)[row0])
    first = is_most[np.diff(row0[is_most], prepend=-1) > 0]  # classes rise within a row
    selected = np.full(inputs, -1, np.int64)
    selected[row0[first]] = label0[first]
    chosen = label == selected[row]
    highest = [_by_row(np.maximum, *entries, inputs) for entries in ((row0, label0), (row, label))]
    return Votes(
        selected=selected,
        top=_by_row(np.add, row, np.where(chosen, count, 0), inputs),
        other=_by_row(np.maximum, row, np.where(chosen, 0, count), inputs),
        n0=_by_row(np.add, row0, count0, inputs),
        n=_by_row(np.add, row, count, inputs),
        highest=np.maximum(*highest),
    )


def _entries(column: NDArray[np.object_]) -> tuple[Integers, Integers, Integers]:
    """Row, class and count of all entries of a column; a skipped input has an empty cell."""
    filled = np.flatnonzero(column.astype(bool))
    text = "\n".join(column[filled].tolist()) + "\n" * bool(len(filled))
    codes = np.frombuffer(text.encode(), np.uint8)
    ends = np.flatnonzero((codes < ord("0")) | (codes > ord("9")))
    marks, digits = codes[ends], np.diff(ends, prepend=-1) - 1
    if not (
        np.all((digits > 0) & (digits <= 15))
        and np.all(marks[::2] == ord(":"))
        and np.all((marks[1::2] == ord(",")) | (marks[1::2] == ord("\n")))
        and np.count_nonzero(marks == ord("\n")) == len(filled)
    ):
        raise BadCounts(next(int(row) for row in filled if not _CELL.fullmatch(column[row])))
    label, count = np.fromstring(text.replace(":", " ").replace(",", " "), np.int64, sep=" ").reshape(-1, 2).T
    last = marks[1::2] == ord("\n")  # of its row
    row = filled[np.cumsum(last) - last]
    falls = (np.diff(label) <= 0) & (np.diff(row) == 0)
    if falls.any():
        raise BadCounts(int(row[np.argmax(falls)]))
    return row, label, count


def _by_row(gather: np.ufunc, row: Integers, values: Integers, inputs: int) -> Integers:
    """The values of each row gathered by `np.add` or `np.maximum`; 0 for rows without an entry."""
    found = np.zeros(inputs, np.int64)
    if len(row):
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        found[row[starts]] = gather.reduceat(values, starts)
    return found
