"""The catalogue of published tables and figures, the folder `tables`: the only place where published values live.

A table is a file; `tables/catalogue.json` says what is in it. Each row is a recipe, with changes where the table varies
something, so that it can be trained here, and beside it stands what the paper prints. A figure prints no values, but
has the commands that draw it from its rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal

from smoothcert.errors import ConfigError
from smoothcert.recipes.shipped import changed, shipped_settings


@dataclass(frozen=True)
class TableRow:
    """One printed row: a single run's `acr` and `accuracy` (in %, at the table's radii), or means over seeds.

    `values` are those of a table about corruptions, at its columns. `starts_from` has the `recipe` and the `change` of
    a run that must be made first, since this one starts from its weights.
    """

    label: str
    recipe: str
    inputs: int
    change: Mapping[str, Any] = field(default_factory=dict)
    as_printed: Mapping[str, Any] = field(default_factory=dict)
    every: int | None = None  # every k-th image, where the number of inputs does not tell
    acr: float | None = None
    mean: float | None = None
    std: float | None = None
    seeds: int = 1  # how many the means are over
    accuracy: tuple[float | None, ...] = ()
    accuracy_std: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    starts_from: Mapping[str, Any] | None = None
    note: str = ""
    log: str = ""
    log_of_columns: str = ""

    @property
    def dataset(self) -> str:
        return self.recipe.partition("/")[0]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Those of the recipe with the changes of this row."""
        return changed(shipped_settings(self.recipe), self.change)

    @cached_property
    def settings_as_printed(self) -> dict[str, Any]:
        """The same as the paper's text has them, where its authors' code and logs have others."""
        return changed(changed(shipped_settings(self.recipe, True), self.change), self.as_printed)

    def printed_acr(self) -> str:
        if self.mean is not None:
            return f"{self.mean:.4f} ± {self.std:.4f}"
        return "-" if self.acr is None else f"{self.acr:.4f}".removesuffix("0")

    def printed_cells(self, table: Table) -> list[str]:
        """What stands at the radii or the columns of the table, as it is printed."""
        if self.values:
            return [
                f"{value:.1f}" if table.in_percent(i) else f"{value:.3f}"
                for i, value in enumerate(self.values)
            ]
        if self.accuracy_std:
            return [
                f"{mean:.2f} ± {std:.2f}"
                for mean, std in zip(self.accuracy, self.accuracy_std, strict=True)
            ]
        return [
            "-" if percent is None else f"{percent:.{table.digits}f}" for percent in self.accuracy
        ]


@dataclass(frozen=True)
class BestRow:
    """A printed row that is no model: for each radius of its table the best of several models.

    These are the rows of the tables `of` whose label or recipe matches a pattern of `rows`; a row that is quoted from
    elsewhere has none. In % at the radii: `accuracy` of the best model, its accuracy at radius 0 (`clean`), and how
    often it gives no answer (`abstention`), as far as the table prints them.
    """

    label: str
    inputs: int
    of: tuple[str, ...] = ()
    rows: tuple[str, ...] = ("*",)
    accuracy: tuple[float, ...] = ()
    clean: tuple[float, ...] = ()
    abstention: tuple[float, ...] = ()
    note: str = ""

    @cached_property
    def models(self) -> list[tuple[Table, TableRow]]:
        """The rows that it is the best of, each with its table."""
        return [
            (table, row)
            for table in map(load_table, self.of)
            for row in table.rows
            if any(fnmatchcase(each, p) for p in self.rows for each in (row.label, row.recipe))
        ]

    def printed_cells(self, digits: int) -> list[str]:
        shown = [f"{percent:.{digits}f}" for percent in self.accuracy or self.abstention]
        clean = [f" ({percent:.{digits}f})" for percent in self.clean] or [""] * len(shown)
        return [cell + bracket for cell, bracket in zip(shown, clean, strict=True)]


@dataclass(frozen=True)
class Table:
    """`name` is PAPER/TABLE. A table has `radii`, or about corruptions `columns`, or neither (ACR alone).

    It has `rows`, which are models, or rows that are the `best` of models, or a `reason` why it has neither. One about
    an l-infinity radius (`linf`) has the l2 radius that includes it. `commands` draw a figure.
    """

    name: str
    title: str
    cited: str
    rows: tuple[TableRow, ...] = ()
    best: tuple[BestRow, ...] = ()
    radii: tuple[float, ...] = ()
    linf: str = ""
    note: str = ""
    columns: tuple[str, ...] = ()
    corruptions: str = ""
    severity: int | None = None
    measure: Literal["", "acr", "accuracy"] = ""
    commands: tuple[str, ...] = ()
    reason: str = ""

    @property
    def datasets(self) -> tuple[str, ...]:
        models = [*self.rows, *(row for best in self.best for _, row in best.models)]
        return tuple(dict.fromkeys(row.dataset for row in models))

    @property
    def head(self) -> tuple[str, ...]:
        if self.linf:
            return (f"l_inf {self.linf}",)
        return self.columns or tuple(f"{radius:.2f}" for radius in self.radii)

    @property
    def digits(self) -> int:
        """Of its accuracies: tables of ImageNet print whole numbers."""
        cells = [
            *(row.accuracy for row in self.rows),
            *(row.accuracy + row.abstention for row in self.best),
        ]
        printed = [percent for row in cells for percent in row if percent is not None]
        return 0 if all(percent == int(percent) for percent in printed) else 1

    @property
    def notes(self) -> list[str]:
        """On the table as a whole, then on its rows; those that share a note are named together."""
        about = [(f"{row.label} (sigma {row.settings['sigma']:g})", row.note) for row in self.rows]
        about += [(row.label, row.note) for row in self.best]
        sharing = {note: [row for row, its in about if its == note] for _, note in about if note}
        rows = [f"{'; '.join(names)}: {note}" for note, names in sharing.items()]
        return [*([f"the table: {self.note}"] if self.note else []), *rows]

    def in_percent(self, column: int) -> bool:
        """Whether a column of a table about corruptions has accuracies, not radii."""
        return self.measure == "accuracy" or (
            not self.measure and "acc" in self.columns[column].lower()
        )


def table_names(paper: str | None = None) -> list[str]:
    """PAPER/TABLE of each, paper by paper; of one paper, none if it is not known."""
    papers = [known for known in _catalogue()["papers"] if paper in (None, known)]
    return [name for known in papers for name in sorted(_files(known), key=_numbered)]


@cache
def load_table(name: str) -> Table:
    paper, _, own = name.partition("/")
    known = _files(paper) if paper in _catalogue()["papers"] else {}
    if name not in known:
        raise unknown_table(name)
    content = json.loads(known[name].read_text(encoding="utf-8"))
    title, inputs = str(_catalogue()["papers"][paper]), content.pop("inputs", 0)
    others = [load_table(other) for other in content.pop("of", ())]  # whose rows are its own
    again = {(row.label, row.recipe): row for other in others for row in other.rows}
    if others:
        content.setdefault("radii", max((other.radii for other in others), key=len))
    rows = [TableRow(**_frozen({"inputs": inputs, **row})) for row in content.pop("rows", ())]
    rows += [_drawn(row) if own.startswith("figure") else row for row in again.values()]
    best = tuple(BestRow(**_frozen({"inputs": inputs, **row})) for row in content.pop("best", ()))
    cited = title if paper.endswith("-logs") else f"{title}, {own.replace('-', ' ')}"
    return Table(name=name, cited=cited, rows=tuple(rows), best=best, **_frozen(content))


def _drawn(row: TableRow) -> TableRow:
    """A row without its values, for a figure."""
    kept = {key: getattr(row, key) for key in ("change", "as_printed", "every", "starts_from")}
    return TableRow(row.label, row.recipe, row.inputs, **kept)


def unknown_table(name: str) -> ConfigError:
    """The error for a misspelt name, with those offered that end as it does, or the nearest: there are too many."""
    known = [*_catalogue()["papers"], *table_names()]
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


def tables_by_preference() -> list[Table]:
    """All of them; where several print a row of the same settings, the first is shown beside a run."""
    preferred = _catalogue()["preferred"]
    return [load_table(name) for name in dict.fromkeys([*preferred, *table_names()])]


def measured() -> dict[str, Any]:
    """With what all published values were measured: n0, n and alpha, and the digits that radii were rounded to."""
    return dict(_catalogue()["measured"])


def method_defaults() -> dict[str, dict[str, Any]]:
    """The default hyperparameters of each method.

    They are in the catalogue, since reading them from the code would import PyTorch; a test keeps both equal.
    """
    return dict(_catalogue()["defaults"])


def _frozen(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says, its lists as tuples."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}


@cache
def _catalogue() -> dict[str, Any]:
    place = files(__package__) / "tables" / "catalogue.json"
    return dict(json.loads(place.read_text(encoding="utf-8")))


def _files(paper: str) -> dict[str, Traversable]:
    folder = files(__package__) / "tables" / paper
    return {f"{paper}/{file.name.removesuffix('.json')}": file for file in folder.iterdir()}


def _numbered(name: str) -> tuple[bool, int, str]:
    """Tables in their order, then figures."""
    number = re.search(r"-(\d+)$", name)
    return ("figure-" in name, int(number[1]) if number else 0, name)
