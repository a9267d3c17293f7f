"""One part file of a result store, and the process that writes it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smoothcert.files import write_error
from smoothcert.runs.chain import chained, last_link, next_link
from smoothcert.runs.rows import read_lines

SYNC_SECONDS = 1.0


class PartWriter:
    """Appends rows to one part file, whose torn last line (if any) is cut first. It goes on with the file's columns."""

    def __init__(self, descriptor: int, path: Path, columns: Sequence[str], identity: Mapping[str, Any]) -> None:
        self._descriptor, self._path, self._synced = descriptor, path, time.monotonic()
        lines = read_lines(path, columns)
        if lines.torn:
            os.ftruncate(self._descriptor, lines.size)
        if not lines.size:
            self._write("\t".join(columns) + "\n")
            self.sync()
        self._columns = lines.header
        self._link = last_link(lines, identity) if chained(lines) else None  # parts of older versions have no chain

    def add(self, row: Mapping[str, object]) -> None:
        if self._link is None:
            self._write("\t".join(str(row[name]) for name in self._columns) + "\n")
        else:
            text = "\t".join(str(row[name]) for name in self._columns[:-1])
            link = next_link(self._link, text)
            self._write(f"{text}\t{link}\n")
            self._link = link  # only now: a row that could not be written is no part of the chain
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Rows are in the file as soon as they are added; this makes them survive a power cut too."""
        os.fsync(self._descriptor)
        self._synced = time.monotonic()

    def _write(self, text: str) -> None:
        data = text.encode()
        size = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, data) != len(data):
                raise OSError(28, "No space left on device")
        except OSError as error:
            os.ftruncate(self._descriptor, size)  # a half-written row goes; all rows before it stay
            raise write_error(self._path, error) from error
