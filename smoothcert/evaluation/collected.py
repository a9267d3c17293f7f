"""results.json: the outcomes of one table, collected by commands that make some of its rows each.

Rows of earlier commands stay until they are made again. What is collected must belong together: rows of one table, made
with the same options. Like a store, the file refuses others, and says in what they differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.files import write_text
from smoothcert.runs.locks import locked

Entry = Mapping[str, Any]
Key = tuple[Any, ...]

_ROW = ("table", "row", "recipe")
_PATIENCE = 60.0  # seconds; the lock is held for moments


def row_of(entry: Entry) -> Key:
    """Which row an outcome is of; those of a data set's recipes have no table, those of best models no recipe."""
    return tuple(entry.get(name) for name in _ROW)


def key_of(entry: Entry) -> Key:
    """What there is one outcome of."""
    return (*row_of(entry), *(entry.get(name) for name in ("seed", "corruption", "severity")))


@dataclass(frozen=True)
class Collected:
    """The file at `path`; `rows` are those of the whole table, in its order, and `options` decide what comes out."""

    path: Path
    rows: Sequence[Key]
    options: Mapping[str, Any]

    def kept(self, made: Collection[Key]) -> list[dict[str, Any]]:
        """What is in the file beside outcomes of these keys; refused if it does not belong to what is made now."""
        others = [entry for entry in self._read() if key_of(entry) not in made]
        for entry in others:
            if row_of(entry) not in self.rows:
                name = " ".join(str(part) for part in row_of(entry) if part is not None)
                raise StoreError(
                    f"{self.path} has a row of another table ({name}): move it away, or give another --out"
                )
            self._check_options(entry)
        return others

    def add(self, made: Sequence[Entry], table: Callable[[list[dict[str, Any]]], str]) -> str:
        """Write these outcomes beside the kept ones, in the order of the table, and all as Markdown into results.md."""
        with locked(
            self.path.with_name(f".{self.path.name}.lock"), None, _PATIENCE
        ):  # another may make other rows
            found = self.kept({key_of(entry) for entry in made})
            found += [{**entry, "options": dict(self.options)} for entry in made]
            found.sort(key=lambda entry: (self.rows.index(row_of(entry)), entry.get("seed", 0)))
            text = table(found)
            write_text(self.path, json.dumps(found, indent=1) + "\n")
            write_text(self.path.with_suffix(".md"), text)
        return text

    def _check_options(self, entry: Entry) -> None:
        earlier = entry.get("options", {})
        unlike = [
            f"{name} {_shown(earlier.get(name))} there, {_shown(self.options.get(name))} here"
            for name in dict.fromkeys([*earlier, *self.options])
            if earlier.get(name) != self.options.get(name)
        ]
        if unlike:
            raise StoreError(
                f"{self.path} has rows that were made with other options: {'; '.join(unlike)}. Give the options of "
                "these rows, or another --out"
            )

    def _read(self) -> list[dict[str, Any]]:
        try:
            found = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{self.path} cannot be read: {error}. Move it away, and give the command again"
            ) from error
        if not isinstance(found, list) or not all(_is_entry(entry) for entry in found):
            raise StoreError(
                f"{self.path} should be a list of outcomes as `smoothcert reproduce` writes it, and is not: move it "
                "away, and give the command again"
            )
        return found


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("options", {}), dict)
        and any(map(entry.get, _ROW))
    )


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)
