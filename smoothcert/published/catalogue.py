"""The catalogue of published tables and figures, the folder `tables`: the only place where published values live.

A table is a file; `tables/catalogue.json` says what is in it. Each row is a recipe, with changes where the table varies
something, so that it can be trained here, and beside it stands what the paper prints. A figure prints no values, but
has the commands that draw it from its rows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import repeat
from typing import Any, NamedTuple

from smoothcert.errors import ConfigError, DataError
from smoothcert.published.row import Row, contents
from smoothcert.statistics.value import (
    ABSTENTION,
    ACR,
    CERTIFIED_ACCURACY,
    CLEAN,
    MEAN_ACCURACY,
    MEAN_ACR,
    Value,
)

QUOTED = "quoted from elsewhere"
SILENT = "no values are printed"
_OF_A_TABLE = ("title", "linf", "note", "corruptions", "severity", "reason")
_KEPT = {
    *("label", "recipe", "change", "as_printed", "starts_from", "every", "note"),
    *("log", "log_of_columns"),
}
_CELLS = {"accuracy": CERTIFIED_ACCURACY, "clean": CLEAN, "abstention": ABSTENTION, "values": ""}
_MELTED = {*_CELLS, "inputs", "acr", "mean", "std", "seeds", "accuracy_std", "of", "rows"}


class Column(NamedTuple):
    head: str
    measure: str
    r: float | None = None
    on: str = ""


@dataclass(frozen=True)
class PaperTable:
    """`name` is PAPER/TABLE. It has `rows`, or a `reason` why it has none, and `columns` beside the ACR of each row.

    One about an l-infinity radius (`linf`) has the l2 radius that includes it. `commands` draw a figure.
    """

    name: str
    title: str
    cited: str
    rows: tuple[Row, ...] = ()
    columns: tuple[Column, ...] = ()
    linf: str = ""
    note: str = ""
    corruptions: str = ""
    severity: int | None = None
    commands: tuple[str, ...] = ()
    reason: str = ""

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.dataset for row in self.rows if row.dataset))

    @property
    def radii(self) -> tuple[float, ...]:
        """Empty if it is about corruptions, or has ACRs alone."""
        return tuple(c.r for c in self.columns if c.r is not None and not self.corruptions)

    @property
    def head(self) -> tuple[str, ...]:
        """What `cells` are called."""
        return (
            *(["ACR"] if any(row.acr for row in self.rows) else []),
            *(c[0] for c in self.columns),
        )

    def cells(self, row: Row) -> list[str]:
        """Of a row, what stands under `head`, as it is printed; of the best models, their accuracy at 0 in brackets."""
        found = [row.text(row.acr)] if "ACR" in self.head else []
        for column in self.columns:
            clean = row.at(CLEAN, column.r)
            own = next((v for v in row.printed if v.place == column[1:]), None)
            own = own or row.at(ABSTENTION, column.r)
            found.append(row.text(own) + (f" ({row.text(clean)})" if clean else ""))
        return found

    @property
    def notes(self) -> list[str]:
        """On the table as a whole, then on its rows; those that share a note are named together."""
        about = [
            (row.label + (f" (sigma {row.settings['sigma']:g})" if row.recipe else ""), row.note)
            for row in self.rows
        ]
        sharing = {note: [row for row, its in about if its == note] for _, note in about if note}
        rows = [f"{'; '.join(names)}: {note}" for note, names in sharing.items()]
        return [*([f"the table: {self.note}"] if self.note else []), *rows]


def table_names(paper: str | None = None) -> list[str]:
    """PAPER/TABLE of each, paper by paper; of one paper, none if it is not known."""
    papers = [known for known in contents()["papers"] if paper in (None, known)]
    return [name for known in papers for name in sorted(_files(known), key=_numbered)]


@cache
def load_table(name: str) -> PaperTable:
    paper = name.partition("/")[0]
    known = _files(paper) if paper in contents()["papers"] else {}
    if name not in known:
        raise unknown_table(name)
    return read_table(name, json.loads(known[name].read_text(encoding="utf-8")))


def read_table(name: str, content: Mapping[str, Any]) -> PaperTable:
    """A table as a file of the catalogue has it, its cells as values; refused where it contradicts itself."""
    paper, _, own = name.partition("/")
    title, figure = str(contents()["papers"][paper]), own.startswith("figure")
    cited = title if paper.endswith("-logs") else f"{title}, {own.replace('-', ' ')}"
    others = [load_table(other) for other in content.get("of", ())]  # whose rows are its own
    columns = _columns(name, content) or max((t.columns for t in others), key=len, default=())
    told = {key: content[key] for key in _OF_A_TABLE if key in content}
    commands = tuple(content.get("commands", ()))
    table = PaperTable(name, cited=cited, columns=columns, commands=commands, **told)
    entries = [*content.get("rows", ()), *content.get("best", ())]
    cells = [cell for e in entries for key in ("accuracy", "abstention") for cell in e.get(key, ())]
    whole = all(cell is None or cell == int(cell) for cell in cells)  # so those of ImageNet
    rows = [_row(table, {"inputs": content.get("inputs", 0), **entry}, whole) for entry in entries]
    here: dict[str, Any] = {"table": name, "cited": cited}
    here |= (
        {"printed": (), "log": "", "log_of_columns": "", "note": "", "reason": SILENT}
        if figure
        else {}
    )
    again = {(row.label, row.recipe): row for other in others for row in other.rows}
    rows += [replace(row, **here) for row in again.values()]
    return replace(table, rows=tuple(rows))


def _columns(name: str, content: Mapping[str, Any]) -> tuple[Column, ...]:
    radii, linf = content.get("radii", ()), content.get("linf")
    if list(radii) != sorted({r for r in radii if r >= 0}):
        raise DataError(f"table {name}: expected ascending radii from 0 on, found {list(radii)}")
    heads = [f"l_inf {linf}" if linf else f"{r:.2f}" for r in radii]
    found = [Column(*pair) for pair in zip(heads, repeat(CERTIFIED_ACCURACY), radii)]
    return (*found, *(_of_corruptions(head, content) for head in content.get("columns", ())))


def _of_corruptions(head: str, content: Mapping[str, Any]) -> Column:
    """A type of corruption, or a mean: over the types at one severity, or over all of them."""
    measure, severity = content.get("measure"), content.get("severity")
    share = measure == "accuracy" if measure else "acc" in head.lower()
    if measure and head != "mean":
        on = f"{head}/{severity}" if severity else head
        return Column(head, CERTIFIED_ACCURACY if share else ACR, 0.0 if share else None, on)
    number = severity or (head[-1] if head[-1].isdigit() else None)
    on = f"severity {number}" if number else ""
    return Column(head, MEAN_ACCURACY if share else MEAN_ACR, 0.0 if share else None, on)


def _row(table: PaperTable, entry: Mapping[str, Any], whole: bool) -> Row:
    """One entry of a file: its percentages become shares, and `digits` says how many of them were printed."""
    label, images, best = str(entry["label"]), entry["inputs"], "recipe" not in entry
    place = f"table {table.name}, row {label}"
    if unknown := entry.keys() - _KEPT - _MELTED:
        raise DataError(f"{place}: no entry is called {' or '.join(sorted(unknown))}")
    spread = {"seeds": entry.get("seeds", 1), "images": images}
    digits = dict.fromkeys((CERTIFIED_ACCURACY, CLEAN, ABSTENTION), 0 if whole else 1)
    printed = []
    for key in ("acr", "mean"):
        if (acr := entry.get(key)) is not None:
            digits[ACR] = 3 if key == "acr" and round(acr, 3) == acr else 4
            printed.append(Value(label, ACR, acr, sd=entry.get("std", math.nan), **spread))
    if entry.get("accuracy_std"):
        digits[CERTIFIED_ACCURACY] = 2
    for key, measure in _CELLS.items():
        cells, columns = entry.get(key, ()), table.columns
        sds = entry.get("accuracy_std", ()) if key == "accuracy" else ()
        if len(cells) not in (0, len(columns)) or len(sds) not in (0, len(cells)):
            raise DataError(
                f"{place}: expected {len(columns)} numbers under {key}, one for each column, found "
                f"{len(cells)} and {len(sds)} standard deviations"
            )
        for column, cell, sd in zip(columns, cells, sds or repeat(math.nan), strict=False):
            if cell is not None:
                own = column.measure if key == "values" else measure
                value = Value(label, own, cell, column.r, column.on, sd=sd, **spread)
                unit = 100 if value.is_share else 1
                printed.append(value._replace(value=cell / unit, sd=sd / unit))
    if entry.get("values"):
        digits |= {CERTIFIED_ACCURACY: 1, MEAN_ACCURACY: 1, ACR: 3, MEAN_ACR: 3}
    if images < 1:
        raise DataError(f"{place}: expected the number of images under inputs, found {images}")
    several = any(not math.isnan(value.sd) for value in printed)
    if several != (spread["seeds"] > 1) or not all(map(_possible, printed)):
        raise DataError(
            f"{place}: expected shares from 0 to 100 %, radii and standard deviations from 0 on, and a standard "
            "deviation wherever seeds are several, and only there"
        )
    return Row(
        table.name,
        table.cited,
        printed=tuple(printed),
        digits=digits,
        images=images,
        corruptions=table.corruptions,
        best_of=tuple(_models(entry)) if best else (),
        reason=QUOTED if best and "of" not in entry else "" if printed else SILENT,
        **{key: entry[key] for key in _KEPT & entry.keys()},
    )


def _possible(value: Value) -> bool:
    return 0 <= value.value <= (1 if value.is_share else math.inf) and not value.sd < 0


def _models(entry: Mapping[str, Any]) -> Iterator[Row]:
    """The rows that one is the best of: those of its tables whose label or recipe matches a pattern."""
    patterns = entry.get("rows", ["*"])
    for row in (row for name in entry.get("of", ()) for row in load_table(name).rows):
        if any(fnmatchcase(each, p) for p in patterns for each in (row.label, row.recipe)):
            yield row


def unknown_table(name: str) -> ConfigError:
    """The error for a misspelt name, with those offered that end as it does, or the nearest: there are too many."""
    known = [*contents()["papers"], *table_names()]
    near = get_close_matches(name, namesakes(name), n=4, cutoff=0) or get_close_matches(
        name, known, n=3, cutoff=0.5
    )
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return ConfigError(
        f"unknown published table '{name}': {hint}`smoothcert list tables` lists all {len(table_names())}"
    )


def namesakes(name: str) -> list[str]:
    """The tables of all papers that are called as this one is in its paper."""
    return [known for known in table_names() if known.rpartition("/")[2] == name.rpartition("/")[2]]


@cache
def all_rows() -> tuple[Row, ...]:
    """The models of all tables that print values of them, in the order of preference."""
    names = dict.fromkeys([*contents()["preferred"], *table_names()])
    return tuple(
        row for name in names for row in load_table(name).rows if row.printed and row.recipe
    )


def rows_for(config: Mapping[str, Any]) -> list[Row]:
    """The rows with the data, network, sigma and method of a configuration, the preferred first.

    Those that were trained as the configuration says, else those that were trained as their recipes are.
    """
    dataset = str(config.get("dataset")).removesuffix("-printed")
    near = (row for row in all_rows() if row.dataset == dataset and row.may_be_about(config))
    fits = [row for row in near if row.is_about(config)]
    same = [row for row in fits if not row.differences(config)]
    return same or [row for row in fits if row.of_recipe]


def _files(paper: str) -> dict[str, Traversable]:
    folder = files(__package__) / "tables" / paper
    return {f"{paper}/{file.name.removesuffix('.json')}": file for file in folder.iterdir()}


def _numbered(name: str) -> tuple[bool, int, str]:
    """Tables in their order, then figures."""
    number = re.search(r"-(\d+)$", name)
    return ("figure-" in name, int(number[1]) if number else 0, name)
