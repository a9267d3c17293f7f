"""The class counts of stored rows, many rows at once: `class:count,class:count,...` -> what a certificate needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_SPACES = bytes.maketrans(b":,\n", b"   ")
_CELL = re.compile(r"[0-9]{1,10}:[0-9]{1,10}(,[0-9]{1,10}:[0-9]{1,10})*")


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


@dataclass(frozen=True)
class _Entries:
    """All entries `class:count` of a column, row by row, the classes of a row rising."""

    inputs: int
    rows: Integers  # those that have entries: a skipped input has none
    starts: Integers  # where the entries of these rows begin
    row: Integers  # of each entry
    label: Integers
    count: Integers

    def of_rows(self, values: Integers) -> Integers:
        """One value for each row that has entries -> one for each row, 0 for the others."""
        found = np.zeros(self.inputs, np.int64)
        found[self.rows] = values
        return found

    def total(self, values: Integers) -> Integers:
        return self.of_rows(np.add.reduceat(values, self.starts) if len(self.starts) else values)

    def largest(self, values: Integers) -> Integers:
        return self.of_rows(
            np.maximum.reduceat(values, self.starts) if len(self.starts) else values
        )

    def highest_class(self) -> Integers:
        return self.of_rows(
            self.label[np.append(self.starts[1:], len(self.label)) - 1]
            if len(self.starts)
            else self.label
        )


def read_votes(counts0: NDArray[np.object_], counts: NDArray[np.object_]) -> Votes:
    first, second = _entries(counts0), _entries(counts)
    most = np.flatnonzero(first.count == first.largest(first.count)[first.row])
    lowest = most[np.diff(first.row[most], prepend=-1) > 0]
    selected = np.full(first.inputs, -1, np.int64)
    selected[first.row[lowest]] = first.label[lowest]
    chosen = second.label == selected[second.row]
    return Votes(
        selected=selected,
        top=second.total(np.where(chosen, second.count, 0)),
        other=second.largest(np.where(chosen, 0, second.count)),
        n0=first.total(first.count),
        n=second.total(second.count),
        highest=np.maximum(first.highest_class(), second.highest_class()),
    )


def _entries(column: NDArray[np.object_]) -> _Entries:
    filled = np.flatnonzero(column.astype(bool))
    text = ("\n".join(column[filled].tolist()) + "\n" * bool(len(filled))).encode()
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(
        codes - np.uint8(ord("0")) > 9
    )  # what is below "0" wraps round to far above "9"
    marks, digits = codes[ends], np.diff(ends, prepend=-1) - 1
    last = marks[1::2] == ord("\n")  # the entry ends its row
    if not (
        np.all((digits > 0) & (digits <= 10))
        and np.all(marks[::2] == ord(":"))
        and np.all(last | (marks[1::2] == ord(",")))
        and np.count_nonzero(last) == len(filled)
    ):
        raise BadCounts(next(int(row) for row in filled if not _CELL.fullmatch(column[row])))
    label, count = np.fromstring(text.translate(_SPACES), np.int64, sep=" ").reshape(-1, 2).T
    starts = np.flatnonzero(np.append(True, last[:-1])) if len(filled) else filled
    row = np.repeat(filled, np.diff(starts, append=len(label)))
    falls = (label[1:] <= label[:-1]) & ~last[:-1]
    if falls.any():
        raise BadCounts(int(row[np.argmax(falls)]))
    return _Entries(len(column), filled, starts, row, label, count)
