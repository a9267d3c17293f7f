"""Where the rows of a store are made: in this process, or by others, of which several work at a time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.errors import StoreError

Row = Mapping[str, object]  # column -> value, without the time that it took

LARGEST_GROUP = 256
CLAIMING = 0.05  # of the time may be spent on claiming rows, which takes longer the more processes there are


@dataclass(frozen=True)
class Made:
    """The rows of a few names, in their order, and the seconds that all of them took together."""

    names: Sequence[Any]
    rows: Sequence[Row]
    seconds: float

    def by_name(self) -> list[tuple[Any, Row]]:
        """Each name with its row; an error if they are rows of other inputs, as a worker elsewhere may give."""
        asked = [name[0] if isinstance(name, tuple) else name for name in self.names]
        if (found := [row["idx"] for row in self.rows]) != asked:
            raise StoreError(
                f"expected rows of the inputs {asked}, found those of {found}: none of them was written"
            )
        return list(zip(self.names, self.rows, strict=True))


class Executor(ABC):
    """Takes groups of names, and gives the rows of each group back when it is made."""

    group_seconds = 0.5
    """How long a group shall take, once it is known how long a row takes: a crash costs no more than that."""

    @property
    def note(self) -> str:
        """Who is working, for the progress bar, where that is not plain."""
        return ""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether it takes another group now."""

    @abstractmethod
    def submit(self, names: Sequence[Any]) -> None: ...

    @abstractmethod
    def collect(self) -> Sequence[Made]:
        """Groups that are made; waits for one if any is under way, but not for long."""

    def next_group(self, made: Made, claiming: float = 0.0) -> int:
        """How many names to take at once next, by what the last ones took, without sudden jumps.

        `claiming` is how many seconds it took to claim the last ones.
        """
        each, seconds = made.seconds / len(made.names), max(self.group_seconds, claiming / CLAIMING)
        return max(1, min(2 * len(made.names), LARGEST_GROUP, int(seconds / max(each, 1e-9))))


class Here(Executor):
    """In this process, one group after the other. `work` makes the rows of a few names, in order."""

    def __init__(self, work: Callable[[Sequence[Any]], Iterable[Row]]) -> None:
        self._work = work
        self._waiting: Sequence[Any] = ()

    @property
    def idle(self) -> bool:
        return not self._waiting

    def submit(self, names: Sequence[Any]) -> None:
        self._waiting = names

    def collect(self) -> Sequence[Made]:
        if not self._waiting:
            return []
        names, self._waiting = self._waiting, ()
        started = time.perf_counter()
        rows = list(self._work(names))
        return [Made(names, rows, time.perf_counter() - started)]
