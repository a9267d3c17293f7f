"""Certificates on disk: a manifest that says what they are about, and append-only part files with one row an input.

A row is written whole and at once, so a killed process loses at most the row it was on; a torn last line (power cut) is
cut when the part is opened again. Each process writes its own part file, under a lock. Any process may be killed,
restarted or moved: what is missing is what no part holds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import StoreError
from smoothcert.files import atomic_write, write_error
from smoothcert.runs.folder import open_locked
from smoothcert.statistics.certificate import Certificate

COLUMNS = (
    *("idx", "label", "predict", "radius", "correct", "time"),  # the field's six
    *("n0", "n", "counts0", "counts", "p_lower", "multiclass_radius", "noise", "seed"),
)
_SYNC_SECONDS = 1.0
_BEFORE = {"procedure": "fixed"}  # what manifests without the key mean: there was nothing else to name


@dataclass(frozen=True)
class Manifest:
    """`identity` decides the rows and must match on resume; `environment` is for the record."""

    identity: Mapping[str, Any]
    inputs: int
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class CertificateStore:
    folder: Path
    columns: tuple[str, ...] = COLUMNS  # attacks are stored in the same way, with other columns

    def claim(self, manifest: Manifest) -> None:
        """Make the folder this manifest's, or check that it already is."""
        path = self.folder / "manifest.json"
        if not path.exists():
            if any(self.folder.glob("part-*.tsv")):
                raise StoreError(f"{self.folder} holds certificates but no manifest.json: choose another --name")
            with atomic_write(path, keep=True) as file:
                file.write((json.dumps(vars(manifest), indent=2) + "\n").encode())
        # read back even when just written: of two processes that start together, the first manifest stays
        there, asked = ({**_BEFORE, **identity} for identity in (self.manifest().identity, manifest.identity))
        differing = [
            f"{key}: {there.get(key)!r} there, {asked.get(key)!r} asked"
            for key in sorted(there.keys() | asked.keys())
            if there.get(key) != asked.get(key)
        ]
        if differing:
            raise StoreError(
                f"{self.folder} holds certificates of another procedure ({'; '.join(differing)}): "
                "choose another --name, or give the same settings to resume"
            )

    def manifest(self) -> Manifest:
        path = self.folder / "manifest.json"
        try:
            values = json.loads(path.read_bytes())
            return Manifest(dict(values["identity"]), int(values["inputs"]), dict(values["environment"]))
        except FileNotFoundError as error:
            raise StoreError(f"{self.folder} is not a certificate store: it has no manifest.json") from error
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is damaged: {error}") from error

    def rows(self) -> Iterator[list[str]]:
        """The whole rows of all parts, as cells; a line that is still being written is passed over."""
        for part in sorted(self.folder.glob("part-*.tsv")):
            try:
                lines = part.read_bytes().decode().split("\n")[:-1]  # what follows the last newline is no whole row
            except UnicodeDecodeError as error:
                raise StoreError(f"{part} is damaged: {error}") from error
            if lines and lines[0] != "\t".join(self.columns):
                raise StoreError(f"{part} does not start with the header of such a store: move it away")
            for number, line in enumerate(lines[1:], start=2):
                cells = line.split("\t")
                if len(cells) != len(self.columns) or not cells[0].isdigit():
                    raise StoreError(
                        f"{part}, line {number}: expected {len(self.columns)} columns, found {line[:80]!r}"
                    )
                yield cells

    def done(self) -> set[int]:
        """Indices of the inputs that some part holds a row for."""
        return {int(cells[0]) for cells in self.rows()}

    def mean_seconds(self) -> float | None:
        """Mean time an input took, None before the first."""
        times = [cells[self.columns.index("time")].split(":") for cells in self.rows()]
        return sum(int(h) * 3600 + int(m) * 60 + float(s) for h, m, s in times) / len(times) if times else None

    @contextmanager
    def writer(self, shard: int, shards: int) -> Iterator[PartWriter]:
        path = self.folder / f"part-{shard}-of-{shards}.tsv"
        with open_locked(path, f"another process is writing {path}") as file:
            writer = PartWriter(file, path, "\t".join(self.columns) + "\n")
            try:
                yield writer
            finally:
                writer.sync()


class PartWriter:
    """Appends rows to one part file, whose torn last line (if any) is cut first."""

    def __init__(self, file: TextIO, path: Path, header: str) -> None:
        self._descriptor, self._path, self._synced = file.fileno(), path, time.monotonic()
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._descriptor, whole)
        if b"\n" not in content:
            self._write(header)
            self.sync()

    def add(self, row: str) -> None:
        self._write(row)
        if time.monotonic() - self._synced > _SYNC_SECONDS:
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


def format_row(certificate: Certificate, *, index: int, label: int, seconds: float, noise: str, seed: int) -> str:
    correct = int(certificate.predict == label)
    took = clock(seconds)
    cells = (
        *(index, label, certificate.predict, certificate.radius, correct, took),
        *(int(certificate.counts0.sum()), int(certificate.counts.sum())),
        *(_sparse(certificate.counts0), _sparse(certificate.counts)),
        *(certificate.p_lower, certificate.multiclass_radius, noise, seed),
    )
    return "\t".join(str(cell) for cell in cells) + "\n"


def clock(seconds: float) -> str:
    """H:MM:SS.ffffff, the field's format; hours may be more than 24."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes // 60)}:{int(minutes % 60):02}:{rest:09.6f}"


def _sparse(counts: NDArray[np.int64]) -> str:
    """``class:count`` of the classes that were seen, so that 1000 classes do not make long rows."""
    return ",".join(f"{label}:{counts[label]}" for label in np.flatnonzero(counts))
