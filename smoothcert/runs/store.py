"""Results on disk: a manifest that says what they are about, and append-only part files with one row per result.

Certificates and attacks are stored alike; they differ in their columns and in what names a row. A row is written whole
and at once, so a killed process loses at most the row it was on; a torn last line (power cut) is cut when the part is
opened again. Each process writes its own part file, under a lock. Any process may be killed, restarted or moved: what
is missing is what no part holds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.files import atomic_write, write_error
from smoothcert.progress import ProgressBar
from smoothcert.runs.identity import require_same, written_out
from smoothcert.runs.locks import locked
from smoothcert.runs.rows import COLUMNS, Lines, read_lines, row_key
from smoothcert.runs.selection import Selection

Key = int | tuple[int, float]  # what names a row: an input, or an input and a radius
Row = Mapping[str, object]  # column -> value, without the time that it took

SYNC_SECONDS = 1.0
GROUP_SECONDS = 0.5
LARGEST_GROUP = 256
"""Results that are made at once: as many as take half a second, so that a crash costs no more."""

_KINDS = {
    "sigma": float | int | None,
    "alpha": float | int,
    "n": int,
    "n0": int,
    "noise": str,
    "dataset": str,
    "split": str,
}
"""What is computed with and shown of an identity is of these kinds, where it is there."""


@dataclass(frozen=True)
class Manifest:
    """`identity` decides the rows and must match on resume; `environment` is for the record."""

    identity: Mapping[str, Any]
    inputs: int
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class ResultStore:
    """The store of one folder. `keys` are the columns that name a row."""

    folder: Path
    columns: tuple[str, ...] = COLUMNS
    keys: tuple[str, ...] = ("idx",)

    def claim(self, manifest: Manifest) -> None:
        """Make the folder this manifest's, or check that it already is."""
        path = self.folder / "manifest.json"
        if not path.exists():
            if any(self.folder.glob("part-*.tsv")):
                raise StoreError(f"{self.folder} holds results but no manifest.json: choose another --name")
            with atomic_write(path, keep=True) as file:
                file.write((json.dumps(vars(manifest), indent=2) + "\n").encode())
        # read back even when just written: of two processes that start together, the first manifest stays
        require_same(
            written_out(self.manifest().identity),
            written_out(manifest.identity),
            holds=f"{self.folder} holds results of another procedure",
            advice="choose another --name, or give the same settings to resume",
        )

    @property
    def exists(self) -> bool:
        return (self.folder / "manifest.json").is_file()

    def manifest(self) -> Manifest:
        path = self.folder / "manifest.json"
        try:
            values = json.loads(path.read_bytes())
            identity, environment = values["identity"], values["environment"]
            if not (isinstance(identity, dict) and isinstance(environment, dict)):
                raise TypeError("identity and environment must be objects")
            for name, kind in _KINDS.items():
                if name in identity and not isinstance(identity[name], kind):
                    raise TypeError(f"found {name} {identity[name]!r}")
            return Manifest(identity, int(values["inputs"]), environment)
        except FileNotFoundError as error:
            raise StoreError(f"{self.folder} is not a result store: it has no manifest.json") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} is damaged: expected an object with identity, inputs and environment ({error}); "
                "restore it, or certify again under another --name"
            ) from error

    def parts(self) -> list[Lines]:
        """The whole lines of every part that this store could have written; an unfinished line is passed over."""
        found = [read_lines(path, self.columns) for path in self.part_paths()]
        for part in found:
            if part.header != list(self.columns):
                raise StoreError(f"{part.path} does not start with the header of such a store: move it away")
        return found

    def part_paths(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.tsv"))

    def rows(self) -> Iterator[dict[str, str]]:
        """All rows, as text by column."""
        for part in self.parts():
            yield from part.rows()

    def done(self) -> set[Key]:
        """The names of all rows that some part holds."""
        return {row_key(part, row, self.keys) for part in self.parts() for row in range(len(part.fields))}

    def mean_seconds(self) -> float | None:
        """Mean time per row, None before the first."""
        times = [row["time"].split(":") for row in self.rows()]
        return sum(int(h) * 3600 + int(m) * 60 + float(s) for h, m, s in times) / len(times) if times else None

    def complete(
        self,
        wanted: Sequence[Key],
        selection: Selection,
        work: Callable[[Sequence[Any]], Iterable[Row]],
        *,
        what: str,
        unit: str,
        note: str,
        quiet: bool,
    ) -> None:
        """Add the rows of `wanted` that no part holds yet. `work` makes the rows of a few names at a time, in order.

        `note` says what share of them is correct, beside the progress bar.
        """
        with self.writer(selection.shard, selection.shards) as part:
            done = self.done()
            missing = [key for key in wanted if key not in done]
            with ProgressBar(what, len(wanted), unit, done=len(wanted) - len(missing), quiet=quiet) as bar:
                position, correct, group = 0, 0, 1
                while position < len(missing):
                    now = missing[position : position + group]
                    started = time.perf_counter()
                    rows = list(work(now))
                    seconds = (time.perf_counter() - started) / len(now)
                    for row in rows:
                        part.add({**row, "time": clock(seconds)})
                        position, correct = position + 1, correct + int(bool(row["correct"]))
                        bar.advance(note=f"{100 * correct / position:.1f} % {note}")
                    group = next_group(len(now), seconds)

    @contextmanager
    def writer(self, shard: int, shards: int) -> Iterator[PartWriter]:
        path = self.folder / f"part-{shard}-of-{shards}.tsv"
        with locked(self.folder / f".{path.stem}.lock", f"another process is writing {path}"):
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            except OSError as error:
                raise write_error(path, error) from error
            try:
                writer = PartWriter(descriptor, path, self.columns)
                try:
                    yield writer
                finally:
                    writer.sync()
            finally:
                os.close(descriptor)


class PartWriter:
    """Appends rows to one part file, whose torn last line (if any) is cut first."""

    def __init__(self, descriptor: int, path: Path, columns: Sequence[str]) -> None:
        self._descriptor, self._path, self._columns, self._synced = descriptor, path, columns, time.monotonic()
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._descriptor, whole)
        if b"\n" not in content:
            self._write("\t".join(columns) + "\n")
            self.sync()

    def add(self, row: Row) -> None:
        self._write("\t".join(str(row[name]) for name in self._columns) + "\n")
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


def next_group(done: int, seconds_each: float) -> int:
    """How many results to make at once next: as many as a crash may cost, and no sudden jump."""
    return max(1, min(2 * done, LARGEST_GROUP, int(GROUP_SECONDS / max(seconds_each, 1e-9))))


def clock(seconds: float) -> str:
    """H:MM:SS.ffffff, the field's format; hours may be more than 24."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes // 60)}:{int(minutes % 60):02}:{rest:09.6f}"
