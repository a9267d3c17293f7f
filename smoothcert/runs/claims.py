"""What is done, and who is working on what, so that of several processes no two make the same row.

Before each group of rows, a process takes the lock of the store for a moment. It reads the rows that others have added
since and the names that they have claimed, and claims some that nobody has. A claim is a small file beside the lock of
a part, and is void unless that lock is held: a process that was killed claims nothing, and others do its rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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

    def __init__(self, lock: Path, columns: Sequence[str], keys: Sequence[str], wanted: Sequence[Any]) -> None:
        self._folder, self._own = lock.parent, lock.with_suffix(".claims")
        self._columns, self._keys = columns, keys
        self._known: dict[Path, Lines] = {}  # what was read last of each part
        self.missing = list(wanted)

    def take(self, count: int) -> list[Any]:
        """Claim at most `count` of the missing names; none if others have claimed all that are missing."""
        with locked(store_lock(self._folder), None):
            done, taken = self._new_names(), self._claimed_by_others()
            self.missing = [key for key in self.missing if key not in done]
            mine = [key for key in self.missing if key not in taken][:count]
            try:
                self._own.write_text(json.dumps(mine))
            except OSError as error:
                raise write_error(self._own, error) from error
        return mine

    def _new_names(self) -> set[Any]:
        """The names of rows that were added to any part since the last time."""
        found: set[Any] = set()
        for path in self._folder.glob("part-*.tsv"):
            before = self._known.get(path)
            if before is None or path.stat().st_size > before.size:
                lines = self._known[path] = read_lines(path, self._columns, before)
                found.update(row_key(lines, row, self._keys) for row in range(len(lines.fields)))
        return found

    def _claimed_by_others(self) -> set[Any]:
        others = (path for path in self._folder.glob(".part-*.claims") if path != self._own)
        held = [path.read_text() for path in others if is_held(path.with_suffix(".lock"))]
        names = (name for text in held if text for name in json.loads(text))
        return {tuple(name) if isinstance(name, list) else name for name in names}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._own.unlink(missing_ok=True)
