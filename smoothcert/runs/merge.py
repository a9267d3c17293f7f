"""Stores that were made on machines without a common disk -> one store. Checked as a whole before anything is written.

Rows that are not there yet are appended to a part of the joint store, as a process that certifies would append them.
Each row keeps its check, so a merge may be killed at any moment, repeated, or made into a store
that others are still filling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from smoothcert.errors import StoreError
from smoothcert.runs.check import check_parts, require_sound
from smoothcert.runs.checks import join_checks
from smoothcert.runs.find import find_results, stores_of
from smoothcert.runs.identity import differences, written_out
from smoothcert.runs.remote import local
from smoothcert.runs.rows import COLUMNS, NoCertificates
from smoothcert.runs.store import ResultStore

_TIME = COLUMNS.index("time")
_LEAVE_OUT = "leave this source out, or certify its inputs again. Nothing was written"


@dataclass(frozen=True)
class Merged:
    """What was joined from how many stores, how many rows were added, and which inputs no store had."""

    store: ResultStore
    sources: int
    added: int
    inputs: range
    missing: list[int]


class _Source:
    """A store whose rows have been read and checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        checked = require_sound(folder, _LEAVE_OUT)
        self.manifest, self.parts = checked.manifest, checked.parts

    def rows(self) -> dict[tuple[str, ...], str]:
        """The whole rows, each with its check, which is the same in all stores of these settings;
        by all that they say but for the time."""
        found: dict[tuple[str, ...], str] = {}
        for part in self.parts:
            for fields, text in zip(part.fields, part.texts, strict=True):
                said = (*fields[:_TIME], *fields[_TIME + 1 : -1])
                found[said] = min(text, found.get(said, text))
        return found


def merge(
    sources: Sequence[Path | str],
    out: Path | str,
    name: str | None = None,
    check: Callable[[Path], object] = lambda folder: None,
) -> Merged:
    """Add what the sources have to the store at `out`, which is made where there is none.

    A source is a store, a run folder with one store (or one called `name`), or a folder below which these lie. All are
    checked, and `check` may raise an error about more: rows that are in the joint store stay there.
    """
    target = ResultStore(Path(out))
    _require_place(target)
    found = {
        path.resolve(): path for place in sources for path in _stores_at(place, target.folder, name)
    }
    for folder in found:
        if folder in target.folder.resolve().parents:
            raise StoreError(
                f"{target.folder} lies inside the store {found[folder]}: choose another folder"
            )
    there = [_Source(target.folder)] if target.exists else []
    read = [*there, *map(_Source, found.values())]
    _require_same_procedure(read)
    # the same one, in whatever order they are given; its max may be larger than that of the store that is there
    largest = max(
        read,
        key=lambda source: (source.manifest.inputs, source.manifest.written()),
    ).manifest
    joint = check_parts(target.folder, largest, [part for source in read for part in source.parts])
    if joint.problems:
        more = f" ({len(joint.problems)} problems)" if len(joint.problems) > 1 else ""
        raise StoreError(
            f"stores disagree{more}: {joint.problems[0]}. One of them is not what the command gives: find out which "
            "by `smoothcert verify STORE --resample`. Nothing was written"
        )
    for source in read:
        with suppress(NoCertificates):
            check(source.folder)
    made = {
        **largest.environment,
        "merged": True,
    }  # and the machine that it names is one of several
    target.claim(replace(largest, environment=made))
    known = there[0].rows() if there else {}
    new: dict[tuple[str, ...], str] = {}
    for source in read:  # rows of one input that differ as rounding explains are all kept
        for said, text in source.rows().items():
            new[said] = min(text, new.get(said, text))
    added = sorted(new.keys() - known.keys(), key=lambda said: (int(said[0]), said))
    if added:
        with target.writer(None) as part:
            for said in added:
                part.copy(new[said])
    join_checks(target.folder, list(found.values()))
    return Merged(target, len(found), len(added), joint.inputs, joint.missing)


def _stores_at(place: Path | str, out: Path, name: str | None) -> Iterator[Path]:
    """The stores that a source means; the joint one may lie among them, and is not its own source."""
    folder = local(place)
    if not folder.is_dir():
        raise StoreError(
            f"{place}: no such folder; expected a store, a run folder, or a folder below which some lie"
        )
    results = [folder] if _is_store(folder) or stores_of(folder) else find_results(folder)
    by_result = {at: [at] if _is_store(at) else _called(name, stores_of(at)) for at in results}
    if not any(by_result.values()):
        called = f" called {name}" if name and results else ""
        raise StoreError(
            f"{place}: expected a store{called}, a run folder with one, or a folder with some; found none"
        )
    for at, stores in by_result.items():
        others = [store for store in stores if store.resolve() != out.resolve()]
        if len(others) > 1:
            raise StoreError(
                f"{at} has several stores ({', '.join(store.name for store in others)}): choose one by its name"
            )
        yield from others


def _is_store(folder: Path) -> bool:
    return (folder / "manifest.json").is_file()


def _called(name: str | None, stores: Sequence[Path]) -> list[Path]:
    return [store for store in stores if name is None or store.name == name]


def _require_place(target: ResultStore) -> None:
    folder = target.folder
    if (
        not target.exists
        and folder.is_dir()
        and any(not entry.name.startswith(".") for entry in folder.iterdir())
    ):
        raise StoreError(
            f"{folder} is no certificate store, and not empty: expected a new folder or a store of the same "
            "procedure, for example RUN/certify/NAME"
        )


def _require_same_procedure(read: Sequence[_Source]) -> None:
    if not read:
        raise StoreError(
            "there is nothing to merge: the sources have no store but the one that is to be written"
        )
    for first, other in combinations(
        read, 2
    ):  # by their behaviour two may be like a third, and not like each other
        a, b, said = first.folder, other.folder, written_out(first.manifest.identity)
        told = differences(said, written_out(other.manifest.identity), f"in {a}", f"in {b}")
        if first.manifest.inputs != other.manifest.inputs and said.get("simultaneous"):
            told.append(
                f"alpha shared among {first.manifest.inputs} inputs in {a}, {other.manifest.inputs} in {b}"
            )
        if told:
            raise StoreError(
                f"{a} and {b} hold results of different procedures ({'; '.join(told)}): merge only stores that the "
                "same command made. Nothing was written"
            )
