"""The catalogue of published values, `published.json`: the only place where they live.

A row belongs to a configuration with the same data set, network, sigma, method and hyperparameters. A hyperparameter
that is not given has the method's default; defaults are in the file too, since reading them from the code would import
PyTorch, and a test keeps both equal. Numbers agree within 1 %: the papers' 255/255 is the code's 255/256. The training
schedule is not compared. Of several rows for the same settings a recipe shows the first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from smoothcert.statistics.saturation import saturation_radius

N, ALPHA = 100_000, 0.001  # of every published row


@dataclass(frozen=True)
class PublishedRow:
    """One published row: a single run's `acr` and `accuracy` (shares at 0, step, 2 step, ...), or a mean over seeds."""

    dataset: str
    model: str
    method: Mapping[str, Any]
    sigma: float
    inputs: int
    source: str
    step: float
    acr: float | None = None
    mean: float | None = None
    std: float | None = None
    seeds: int = 1  # how many the mean is over
    accuracy: tuple[float, ...] = ()
    note: str = ""

    @property
    def reference(self) -> float:
        """The ACR to compare with: the mean over seeds where there is one."""
        return float(self.acr if self.mean is None else self.mean)  # type: ignore[arg-type]

    def accuracy_at(self, radius: float) -> float | None:
        """The printed certified accuracy at a radius, if it is one of the table's; 0 beyond the saturation radius."""
        column = radius / self.step
        if not self.accuracy or column != int(column):
            return None
        if column < len(self.accuracy):
            return self.accuracy[int(column)]
        return 0.0 if radius > saturation_radius(self.sigma, N, ALPHA) else None

    def printed(self) -> str:
        if self.mean is None:
            return f"{self.acr:.4f}".removesuffix("0")
        return f"{self.mean:.4f} ± {self.std:.4f}"


@cache
def _content() -> dict[str, Any]:
    return dict(json.loads((files(__package__) / "published.json").read_text(encoding="utf-8")))


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """Every row of the catalogue."""
    content, rows = _content(), []
    for row in content["rows"]:
        changed = {
            "model": content["models"][row["dataset"]],
            "step": content["steps"][row["dataset"]],
            "method": content["defaults"][row["method"]["name"]] | row["method"],
            "accuracy": tuple(percent / 100 for percent in row.get("accuracy", ())),
            "source": _cited(row["source"], content["sources"]),
        }
        rows.append(PublishedRow(**(row | changed)))
    return tuple(rows)


def method_defaults() -> dict[str, dict[str, Any]]:
    """The default hyperparameters of each method."""
    return dict(_content()["defaults"])


def method_settings(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The method of a configuration with every hyperparameter: those given, else the method's defaults."""
    method = (config or {}).get("method")
    given = method if isinstance(method, dict) else {"name": method}
    return method_defaults().get(str(given.get("name")), {}) | given


def rows_of(config: Mapping[str, Any]) -> list[PublishedRow]:
    """The rows with the settings of a configuration, in the order of the catalogue."""
    if config.get("self_training") or config.get("init_from"):  # no row was trained with more data
        return []
    own, place = method_settings(config), tuple(config.get(name) for name in ("dataset", "model", "sigma"))
    return [row for row in published_rows() if (row.dataset, row.model, row.sigma) == place and _equal(row.method, own)]


def _equal(row: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    def same(a: object, b: object) -> bool:
        if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool):
            return math.isclose(a, b, rel_tol=0.01)
        return a == b

    return row.keys() == own.keys() and all(same(value, own[name]) for name, value in row.items())


def _cited(source: str, titles: Mapping[str, str]) -> str:
    """`smoothmix, table 5; catrs-logs` -> the titles in place of the short names."""
    parts = [part.partition(", ") for part in source.split("; ")]
    return "; ".join(f"{titles[name]}{comma}{place}" for name, comma, place in parts)
