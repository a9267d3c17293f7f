"""results/*.jsonl: what certified runs gave, one line for each, when the runs themselves are gone.

A line is appended whole. Of lines with the same training, seed and certification the last counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from smoothcert.config import TrainConfig, checked
from smoothcert.errors import ConfigError, StoreError
from smoothcert.files import write_error
from smoothcert.statistics.value import Value

FORMAT = 1


class Number(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """A Value as a line has it: without what is not known."""

    measure: str
    value: float
    r: float | None = None
    on: str = ""
    low: float | None = None
    high: float | None = None
    seeds: int = 1
    images: int = 0

    def as_value(self, of: str) -> Value:
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return Value(of, **{name: value for name, value in given.items() if value is not None})


class Made(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """How a run was made; no place of the machine stands in it."""

    recipe: str
    changes: dict[str, Any]  # of the recipe
    as_printed: bool
    seed: int
    commands: tuple[str, ...]
    commits: dict[str, tuple[str, ...]]
    device: str
    torch: str
    seconds: dict[str, float]
    checked: str = ""  # "counts": each certificate was computed again; "resampled 1 %": and sampled
    starts_from: str = ""  # the recipe and changes of the run whose weights it starts from
    note: str = ""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: int
    config: dict[str, Any]
    settings: dict[str, Any]
    values: tuple[Number, ...]
    beside: dict[str, tuple[Number, ...]]
    made: Made


class _Certified(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of the settings of a certification, which may have more."""

    n: int
    noise: str
    images: int
    dataset: str
    split: str
    start: int
    every: int


@dataclass(frozen=True)
class Measured:
    """What one certified run gave, with the settings of its training and of its certification.

    `beside` has what it gave minus what a log has on the same images, by the paired bootstrap, for each log.
    """

    config: dict[str, Any]
    settings: dict[str, Any]
    values: tuple[Value, ...]
    beside: dict[str, tuple[Value, ...]]
    made: Made

    @property
    def key(self) -> str:
        return json.dumps([self.config, self.settings], sort_keys=True)


def read_measured(paths: Iterable[Path]) -> list[Measured]:
    """All lines of these files that count; an unfinished last line is passed over."""
    found: dict[str, Measured] = {}
    for path in paths:
        try:
            lines = path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
        for number, text in enumerate(lines, start=1):
            if text:
                measured = _read(text, f"{path}, line {number}")
                found[measured.key] = measured
    return list(found.values())


def add_measured(path: Path, measured: Sequence[Measured]) -> None:
    """Append these lines, each of which is written at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        torn = bool(before) and not before.endswith(b"\n")
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            for line in map(written, measured):
                data = b"\n" * torn + line
                if os.write(descriptor, data) != len(data):
                    raise OSError(28, "No space left on device")
                torn = False
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise write_error(path, error) from error


def _read(text: bytes, place: str) -> Measured:
    advice = "put a copy of the file in its place, or delete that line"
    try:
        made_by = msgspec.json.decode(text, type=dict[str, Any]).get("format")
        if made_by != FORMAT:
            raise StoreError(
                f"{place}: made by a newer (or older) smoothcert: expected format {FORMAT}, found {made_by!r}"
            )
        line = msgspec.json.decode(text, type=_Line)
        msgspec.convert(line.settings, _Certified)
        checked(TrainConfig, line.config, "setting of the training")
    except (msgspec.DecodeError, ConfigError, RecursionError) as error:
        raise StoreError(f"{place}: expected a measured run, found {error}: {advice}") from error
    values = tuple(number.as_value(line.made.recipe) for number in line.values)
    beside = {
        log: tuple(number.as_value(log) for number in numbers)
        for log, numbers in line.beside.items()
    }
    return Measured(line.config, line.settings, values, beside, line.made)


def written(measured: Measured) -> bytes:
    """The line of a run."""
    numbers = tuple(map(_number, measured.values))
    beside = {log: tuple(map(_number, values)) for log, values in measured.beside.items()}
    line = _Line(
        format=FORMAT,
        config=measured.config,
        settings=measured.settings,
        values=numbers,
        beside=beside,
        made=measured.made,
    )
    return msgspec.json.encode(line) + b"\n"


def _number(value: Value) -> Number:
    known: dict[str, Any] = {}
    for name in Number.__struct_fields__:
        entry = getattr(value, name)
        if entry == entry:  # not nan
            known[name] = round(entry, 9) if isinstance(entry, float) else entry
    return Number(**known)
