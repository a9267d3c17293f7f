"""Results on disk: a manifest that says what they are about, and append-only part files with one row per result.

Certificates and attacks are stored alike; they differ in their columns and in what names a row. A row is written whole
and at once, so a killed process loses at most the row it was on; a torn last line (power cut) is cut when the part is
opened again. Each process writes its own part file, under a lock, and claims a few rows at a time (claims.py). Any
process may be killed, restarted or moved: what is missing is what no part holds.
"""

from __future__ import annotations

import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path

from smoothcert.errors import StoreError
from smoothcert.files import atomic_write, write_error
from smoothcert.progress import ProgressBar
from smoothcert.runs.claims import Claims, store_lock
from smoothcert.runs.executor import Executor
from smoothcert.runs.identity import digest_of, require_same, written_out
from smoothcert.runs.locks import is_held, locked
from smoothcert.runs.manifest import Manifest, read_manifest
from smoothcert.runs.rows import CHECK, COLUMNS, Lines, read_lines, row_key
from smoothcert.runs.selection import Selection

Key = int | tuple[int, float]  # what names a row: an input, or an input and a radius

SYNC_SECONDS = 1.0
WAIT_SECONDS = 0.2  # between two looks at what another process still does
PATIENCE = 60.0
"""Seconds after which rows that another process has claimed are made here too, if nothing else is left to do."""


@dataclass(frozen=True)
class ResultStore:
    """The store of one folder. `keys` are the columns that name a row."""

    folder: Path
    columns: tuple[str, ...] = COLUMNS
    keys: tuple[str, ...] = ("idx",)

    def claim(
        self, manifest: Manifest, check: Callable[[Path], object] = lambda folder: None
    ) -> None:
        """Make the folder this manifest's, or check that it already is. It may ask for more inputs, or for fewer.

        `check` refuses rows that are there and must not be added to, before anything is written.
        """
        parts = any(
            self.folder.glob("part-*.tsv")
        )  # looked for first: others may be about to write both
        if not self._manifest_path.exists():
            if parts:
                raise StoreError(
                    f"{self.folder} holds results but no manifest.json: choose another name"
                )
            self._write(manifest, keep=True)
        # read back even when just written: of two processes that start together, the first manifest stays
        there = self.manifest()
        require_same(
            written_out(there.identity),
            written_out(manifest.identity),
            holds=f"{self.folder} holds results of another procedure",
            advice="choose another name, or give the same settings to resume",
        )
        if parts:
            check(self.folder)
        if manifest.inputs != there.inputs and manifest.identity.get("simultaneous"):
            raise StoreError(
                f"{self.folder} shares its alpha among {there.inputs} inputs (simultaneous), found {manifest.inputs} "
                "asked for: each would have another share. Ask for the same inputs, or choose another name"
            )
        if manifest.inputs > there.inputs:
            with locked(store_lock(self.folder), None, PATIENCE):
                there = self.manifest()
                if manifest.inputs > there.inputs:
                    identity = {**there.identity, "max": manifest.identity.get("max")}
                    self._write(Manifest(identity, manifest.inputs, there.environment))

    def _write(self, manifest: Manifest, *, keep: bool = False) -> None:
        with atomic_write(self._manifest_path, keep=keep) as file:
            file.write(manifest.written())

    @property
    def _manifest_path(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def exists(self) -> bool:
        return self._manifest_path.is_file()

    def manifest(self) -> Manifest:
        return read_manifest(self._manifest_path)

    def parts(self) -> list[Lines]:
        """The whole lines of every part that this store could have written; an unfinished line is passed over."""
        found = [read_lines(path, self.columns) for path in self.part_paths()]
        for part in found:
            if part.header != list(self.columns):
                raise StoreError(
                    f"{part.path} does not start with the header of such a store: move it away"
                )
        return found

    def part_paths(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.tsv"))

    def rows(self) -> Iterator[dict[str, str]]:
        """All rows, as text by column."""
        for part in self.parts():
            yield from part.rows()

    def fingerprint(self) -> str:
        """SHA-256 of the manifest and of the whole lines of every part: it names exactly these results."""
        digest = sha256(self._manifest_path.read_bytes())
        for path in self.part_paths():
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            digest.update(f"{path.name} {len(whole)}\n".encode() + whole)
        return digest.hexdigest()

    def done(self) -> set[Key]:
        """The names of all rows that some part holds."""
        return {
            row_key(part, row, self.keys)
            for part in self.parts()
            for row in range(len(part.fields))
        }

    def mean_seconds(self) -> float | None:
        """Mean time per row, None before the first."""
        times = [_seconds(part, row) for part in self.parts() for row in range(len(part.fields))]
        return sum(times) / len(times) if times else None

    def complete(
        self,
        wanted: Sequence[Key],
        selection: Selection,
        executor: Executor,
        *,
        what: str,
        unit: str,
        note: str,
        quiet: bool,
    ) -> None:
        """Add the rows of `wanted` that no part holds yet.

        `note` says what share of them is correct, beside the progress bar; it is empty where nothing can be. Where
        none is missing, nothing is written: the store may lie on a disk that can only be read. Rows that other
        processes work on are waited for, but not for ever: the machine of such a process may be very slow, or gone
        without giving up its lock. Rows that are then made twice are the same, and count once.
        """
        done = self.done()
        missing = [name for name in wanted if name not in done]
        if not missing:
            return
        bar = ProgressBar(what, len(wanted), unit, done=len(wanted) - len(missing), quiet=quiet)
        each = self.mean_seconds() or 0.0
        with (
            self.writer(selection.shard, selection.shards) as part,
            Claims(part.lock, self.columns, self.keys, missing) as claims,
            bar,
        ):
            made, correct, group, claiming = 0, 0, 1, 0.0
            while claims.missing:
                before, taken = len(claims.missing), True
                while taken and executor.idle:
                    started = time.perf_counter()
                    now = claims.take(group, patience=max(PATIENCE, 3 * each))
                    claiming, taken = time.perf_counter() - started, bool(now)
                    if taken:
                        executor.submit(now)
                if others := before - len(claims.missing):
                    bar.advance(others)
                finished = executor.collect()
                if not finished and claims.missing:
                    time.sleep(WAIT_SECONDS)
                for group_made in finished:
                    each = group_made.seconds / len(group_made.names)
                    for name, row in group_made.by_name():
                        part.add({**row, "time": clock(each)})
                        made, correct = made + 1, correct + int(bool(row["correct"]))
                        share = f"{10_000 * correct // made / 100:.2f} % {note}" if note else ""
                        told = ", ".join(filter(None, (share, executor.note)))
                        bar.advance(
                            int(name in claims.missing), told
                        )  # another may have made it too
                    group = executor.next_group(group_made, claiming)
                if finished:
                    part.sync()  # before claims are given up: other machines must see rows that nobody claims
                    claims.made([name for group_made in finished for name in group_made.names])

    @contextmanager
    def writer(self, shard: int | None, shards: int = 1) -> Iterator[PartWriter]:
        """Of the part of a shard, or, without one, of the first part without a shard that no other process writes."""
        with ExitStack() as held:
            with locked(
                store_lock(self.folder), None, PATIENCE
            ):  # others ask under it who holds a part's lock
                if shard is None:
                    path = next(path for path in self._auto_parts() if not is_held(part_lock(path)))
                else:
                    path = self.folder / f"part-{shard}-of-{shards}.tsv"
                held.enter_context(locked(part_lock(path), f"another process is writing {path}"))
            try:
                descriptor = os.open(
                    path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666
                )
            except OSError as error:
                raise write_error(path, error) from error
            held.callback(os.close, descriptor)
            manifest = self.manifest()
            digest = digest_of(manifest.identity, manifest.inputs)
            writer = PartWriter(descriptor, path, self.columns, digest)
            held.callback(writer.sync)
            yield writer

    def _auto_parts(self) -> Iterator[Path]:
        # named by the machine too: on some disks a lock is known to one machine alone
        host = re.sub(r"[^A-Za-z0-9.]", "-", socket.gethostname())
        return (self.folder / f"part-auto-{host}-{number}.tsv" for number in count())


def part_lock(part: Path) -> Path:
    """The lock that the writer of a part holds."""
    return part.with_name(f".{part.stem}.lock")


class PartWriter:
    """Appends rows to one part file, whose torn last line (if any) is cut first. It goes on with the file's columns."""

    def __init__(self, descriptor: int, path: Path, columns: Sequence[str], digest: str) -> None:
        self._descriptor, self._path, self._synced = descriptor, path, time.monotonic()
        self.lock = part_lock(path)
        lines = read_lines(path, columns)
        if lines.torn:
            os.ftruncate(self._descriptor, lines.size)
        if not lines.size:
            self._write("\t".join(columns) + "\n")
            self.sync()
        self._columns = lines.header
        self._digest = digest if lines.header[-1] == CHECK else None  # attacks have no checks

    def add(self, row: Mapping[str, object]) -> None:
        if self._digest is None:
            self._write("\t".join(str(row[name]) for name in self._columns) + "\n")
        else:
            text = "\t".join(str(row[name]) for name in self._columns[:-1])
            self._write(f"{text}\t{row_check(self._digest, text)}\n")
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def copy(self, line: str) -> None:
        """Add a row of another store of the same settings, as it is written there."""
        self._write(f"{line}\n")

    def sync(self) -> None:
        """Rows are in the file as soon as they are added; this makes them survive a power cut too."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise write_error(self._path, error) from error
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


def row_check(digest: str, row: str) -> str:
    """The check of a row, given as its other cells joined by tabs, in a store of such settings."""
    return sha256(f"{digest}\t{row}".encode()).hexdigest()[:16]


def _seconds(part: Lines, row: int) -> float:
    text = part.checked(row)[part.header.index("time")]
    try:
        hours, minutes, rest = text.split(":")
        if 0 <= (seconds := int(hours) * 3600 + int(minutes) * 60 + float(rest)) < math.inf:
            return seconds
    except (ValueError, OverflowError):
        pass
    raise part.error(row, f"column time: expected hours:minutes:seconds, found '{text[:40]}'")


def clock(seconds: float) -> str:
    """H:MM:SS.ffffff, the field's format; hours may be more than 24."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes // 60)}:{int(minutes % 60):02}:{rest:09.6f}"
