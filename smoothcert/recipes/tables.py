"""The catalogue of published tables, the folder `tables`: the only place where published values live.

A table is a file; `tables/catalogue.json` says what is in it. Each row is a recipe, with changes where the table varies
something, so that it can be trained here, and beside it stands what the paper prints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal

from smoothcert.errors import unknown_name
from smoothcert.recipes.shipped import changed, shipped_settings


@dataclass(frozen=True)
class TableRow:
    """One printed row: a single run's `acr` and `accuracy` (in %, at the table's radii), or means over seeds.

    `values` are those of a table about corruptions, at its columns.
    """

    label: str
    recipe: str
    inputs: int
    change: Mapping[str, Any]
    every: int | None = None  # of which every k-th image was taken, where the number of inputs does not tell
    acr: float | None = None
    mean: float | None = None
    std: float | None = None
    seeds: int = 1  # how many the means are over
    accuracy: tuple[float | None, ...] = ()
    accuracy_std: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
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

    def printed_acr(self) -> str:
        if self.mean is not None:
            return f"{self.mean:.4f} ± {self.std:.4f}"
        return "-" if self.acr is None else f"{self.acr:.4f}".removesuffix("0")

    def printed_cells(self, table: Table) -> list[str]:
        """What stands at the radii or the columns of the table, as it is printed."""
        if self.values:
            return [f"{value:.1f}" if table.in_percent(i) else f"{value:.3f}" for i, value in enumerate(self.values)]
        if self.accuracy_std:
            return [f"{mean:.2f} ± {std:.2f}" for mean, std in zip(self.accuracy, self.accuracy_std, strict=True)]
        return ["-" if percent is None else f"{percent:.{table.digits}f}" for percent in self.accuracy]


@dataclass(frozen=True)
class Table:
    """`name` is PAPER/TABLE. A table has `radii`, or about corruptions `columns`, or neither (ACR alone)."""

    name: str
    title: str
    cited: str
    rows: tuple[TableRow, ...]
    radii: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()
    corruptions: str = ""
    severity: int | None = None
    measure: Literal["", "acr", "accuracy"] = ""

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    @property
    def head(self) -> tuple[str, ...]:
        return self.columns or tuple(f"{radius:.2f}" for radius in self.radii)

    @property
    def digits(self) -> int:
        """Of its accuracies: tables of ImageNet print whole numbers."""
        printed = [percent for row in self.rows for percent in row.accuracy if percent is not None]
        return 0 if all(percent == int(percent) for percent in printed) else 1

    @property
    def notes(self) -> list[str]:
        return [f"{row.label} (sigma {row.settings['sigma']:g}): {row.note}" for row in self.rows if row.note]

    def in_percent(self, column: int) -> bool:
        """Whether a column of a table about corruptions has accuracies, not radii."""
        return self.measure == "accuracy" or (not self.measure and "acc" in self.columns[column].lower())


def table_names() -> list[str]:
    """PAPER/TABLE of each, paper by paper."""
    return [name for paper in _catalogue()["papers"] for name in sorted(_files(paper), key=_numbered)]


@cache
def load_table(name: str) -> Table:
    paper, _, own = name.partition("/")
    known = _files(paper) if paper in _catalogue()["papers"] else {}
    if name not in known:
        raise unknown_name("published table", name, table_names())
    content = json.loads(known[name].read_text(encoding="utf-8"))
    title, inputs = str(_catalogue()["papers"][paper]), content.pop("inputs")
    rows = tuple(_row({"inputs": inputs, **row}) for row in content.pop("rows"))
    for key in ("radii", "columns"):
        content[key] = tuple(content.get(key, ()))
    cited = title if paper.endswith("-logs") else f"{title}, {own.replace('-', ' ')}"
    return Table(name=name, cited=cited, rows=rows, **content)


def tables_by_preference() -> list[Table]:
    """All of them; where several print a row of the same settings, the first is shown beside a run."""
    preferred = _catalogue()["preferred"]
    return [load_table(name) for name in dict.fromkeys([*preferred, *table_names()])]


def method_defaults() -> dict[str, dict[str, Any]]:
    """The default hyperparameters of each method.

    They are in the catalogue, since reading them from the code would import PyTorch; a test keeps both equal.
    """
    return dict(_catalogue()["defaults"])


def _row(content: dict[str, Any]) -> TableRow:
    for key in ("accuracy", "accuracy_std", "values"):
        content[key] = tuple(content.get(key, ()))
    return TableRow(**{"change": {}, **content})


@cache
def _catalogue() -> dict[str, Any]:
    return dict(json.loads((files(__package__) / "tables" / "catalogue.json").read_text(encoding="utf-8")))


def _files(paper: str) -> dict[str, Traversable]:
    folder = files(__package__) / "tables" / paper
    return {f"{paper}/{file.name.removesuffix('.json')}": file for file in folder.iterdir()}


def _numbered(name: str) -> tuple[int, str]:
    number = re.search(r"table-(\d+)$", name)
    return (int(number[1]) if number else 0, name)
