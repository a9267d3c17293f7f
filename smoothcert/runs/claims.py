"""What is done, and who is working on what, so that of several processes no two make the same row.

Before each group of rows, a process takes the lock of the store for a moment. It reads the rows that others have added
since and the names that they have claimed, and claims some that nobody has. A claim is a small file beside the lock of
a part, and is void unless that lock is held: a process that was killed claims nothing, and others do its rows. What
is claimed for very long may be claimed again, by the clock of the one who waits: a machine that hangs, or whose lock
its disk never releases, holds nobody up.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from smoothcert.files import write_error
from smoothcert.runs.locks import is_held, locked
from smoothcert.runs.rows import Lines, read_lines, row_key


def store_lock(folder: Path) -> Path:
    """Held for moments only: by whoever changes the manifest, opens a part or claims rows."""
    return folder / ".store.lock"


class Claims:
    """The claims of the process that holds `lock`, the lock of its part; given up at the end of a with block."""

    def __init__(
        self, lock: Path, columns: Sequence[str], keys: Sequence[str], wanted: Sequence[Any]
    ) -> None:
        self._folder, self._own = lock.parent, lock.with_suffix(".claims")
        self._columns, self._keys = columns, keys
        self._known: dict[Path, Lines] = {}  # what was read last of each part
        self._mine: set[Any] = set()
        self._since: dict[
            Any, float
        ] = {}  # when a name was first seen to be claimed by another process
        self.missing: dict[Any, None] = dict.fromkeys(wanted)

    def take(self, count: int, patience: float) -> list[Any]:
        """Claim at most `count` more of the missing names; none if others have claimed all that are missing.

        Then those are claimed too that others have held for longer than `patience` seconds.
        """
        with locked(
            store_lock(self._folder), None, patience
        ):  # its holder may hang; rows made twice count once
            # claims before rows: a process that ends gives its claims up without the lock, when their rows are there
            claims, now = self._claims_of_others(), time.monotonic()
            for name in self._new_names():
                self.missing.pop(name, None)
            theirs = set().union(*claims.values())
            self._since = {
                name: self._since.get(name, now) for name in theirs if name in self.missing
            }
            taken = self._first(count, (name for name in self.missing if name not in theirs))
            if not taken:  # only now it is asked who is alive: with many processes, that takes long
                alive = set().union(
                    *(names for path, names in claims.items() if is_held(path.with_suffix(".lock")))
                )
                taken = self._first(count, (name for name in self.missing if name not in alive))
            if not taken:
                taken = self._first(
                    count, (name for name, since in self._since.items() if now - since > patience)
                )
            self._mine.update(taken)
            try:
                self._own.write_text(json.dumps(sorted(self._mine)))
            except OSError as error:
                raise write_error(self._own, error) from error
        return taken

    def _first(self, count: int, names: Iterable[Any]) -> list[Any]:
        return list(
            dict.fromkeys(islice((name for name in names if name not in self._mine), count))
        )

    def made(self, names: Sequence[Any]) -> None:
        """Their rows are in the part of this process."""
        self._mine.difference_update(names)
        for name in names:
            self.missing.pop(name, None)

    def _new_names(self) -> set[Any]:
        """The names of rows that were added to any part since the last time."""
        found: set[Any] = set()
        for path in self._folder.glob("part-*.tsv"):
            before = self._known.get(path)
            if before is None or _size_now(path) > before.size:
                lines = self._known[path] = read_lines(path, self._columns, before)
                found.update(row_key(lines, row, self._keys) for row in range(len(lines.fields)))
        return found

    def _claims_of_others(self) -> dict[Path, set[Any]]:
        found: dict[Path, set[Any]] = {}
        for path in self._folder.glob(".part-*.claims"):
            if path != self._own:
                # just given up, or its machine stopped while it wrote, or it holds no names of rows
                with suppress(OSError, ValueError, TypeError, RecursionError):
                    names = json.loads(path.read_text())
                    found[path] = {
                        tuple(name) if isinstance(name, list) else name for name in names
                    }
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(
            OSError
        ):  # on Windows, while another process reads it; void anyway, without the lock
            self._own.unlink()


def _size_now(path: Path) -> int:
    """On a network disk, a file that is opened is looked at anew; its size in the folder may be many seconds old."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size
