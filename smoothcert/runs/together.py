"""Stores of one procedure at different places, counted together: shards that machines make on disks of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from smoothcert.progress import all_of, noun
from smoothcert.runs.identity import differences, written_out
from smoothcert.runs.state import RunState
from smoothcert.runs.store import ResultStore


@dataclass(frozen=True)
class Together:
    """How many inputs at least one of these stores has."""

    places: tuple[Path, ...]
    done: int
    inputs: int

    def __str__(self) -> str:
        missing = self.inputs - self.done
        counted = (
            f"{self.done} of {self.inputs} {noun(self.inputs, 'input')}, {missing} missing"
            if missing > 0
            else all_of(self.inputs, "input")
        )
        return f"together, {len(self.places)} stores of one procedure have {counted}"


def together(runs: Iterable[RunState]) -> list[Together]:
    """Of each procedure with stores at several places, of which one at least is unfinished and none is damaged."""
    places = {
        store.path.resolve(): store
        for run in runs
        for store in run.stores
        if store.state != "damaged"
    }
    groups: list[list[ResultStore]] = []
    for state in places.values():
        store = ResultStore(state.path)
        group = next((group for group in groups if _same(group[0], store)), None)
        if group is None:
            groups.append([store])
        else:
            group.append(store)
    unfinished = {state.path for state in places.values() if state.state == "partial"}
    return [
        _count(group)
        for group in groups
        if len(group) > 1 and unfinished & {store.folder for store in group}
    ]


def _same(a: ResultStore, b: ResultStore) -> bool:
    return not differences(
        written_out(a.manifest().identity), written_out(b.manifest().identity), "", ""
    )


def _count(group: list[ResultStore]) -> Together:
    done = set().union(*(store.done() for store in group))
    return Together(
        tuple(store.folder for store in group), len(done), max(s.manifest().inputs for s in group)
    )
