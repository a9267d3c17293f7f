"""Which published values belong to a configuration: rows of the catalogue of tables with the same settings.

A row belongs to a configuration with the same data set, network, sigma, method and hyperparameters. A hyperparameter
that is not given has the method's default. Numbers agree within 1 %: the papers' 255/255 is the code's 255/256.
The other settings of training choose among the rows that are left: those with all settings of the configuration are its
own, else those with the settings of the recipe, and `training_differences` says in what these differ.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert.published.catalogue import (
    Table,
    TableRow,
    measured,
    method_defaults,
    tables_by_preference,
)
from smoothcert.statistics.saturation import saturation_radius

if TYPE_CHECKING:
    from smoothcert.config import TrainConfig

_TRAINING = {
    *("epochs", "batch_size", "optimizer", "lr", "momentum", "nesterov", "weight_decay"),
    *("lr_step", "lr_factor", "lr_late", "lr_drops", "model_options", "normalisation", "augment"),
    "as_printed",
}
# of soft labels, by no paper
_FREE = {"n", "folder", "settings", "seed", "precision", "kernels", "evaluate_every"}


class Budget(NamedTuple):
    n: int
    alpha: float


def budget() -> Budget:
    """Of every published row."""
    found = measured()
    return Budget(int(found["n"]), float(found["alpha"]))


@dataclass(frozen=True)
class PublishedRow:
    """A single run's `acr` and `accuracy` (shares at `radii`), and the mean over seeds, where printed."""

    dataset: str
    model: str
    method: Mapping[str, Any]
    sigma: float
    inputs: int
    source: str
    radii: tuple[float, ...] = ()
    every: int | None = (
        None  # of which every k-th image was taken, where the number of inputs does not tell
    )
    acr: float | None = None
    mean: float | None = None
    std: float | None = None
    seeds: int = 1  # how many the mean is over
    accuracy: tuple[float | None, ...] = ()
    note: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)  # what it fixes beside the method
    of_recipe: bool = True  # whether that is the recipe's own

    @property
    def reference(self) -> float:
        """The ACR to compare with: the mean over seeds where there is one."""
        return float(self.acr if self.mean is None else self.mean)  # type: ignore[arg-type]

    def accuracy_at(self, radius: float) -> float | None:
        """The printed certified accuracy at a radius, if it is one of the table's; 0 beyond the saturation radius."""
        printed = dict(zip(self.radii, self.accuracy, strict=False))
        beyond = bool(printed) and radius > saturation_radius(self.sigma, *budget(), "gaussian")
        return printed.get(radius, 0.0 if beyond else None)

    def printed(self) -> str:
        if self.mean is None:
            return f"{self.acr:.4f}".removesuffix("0")
        return f"{self.mean:.4f} ± {self.std:.4f}"


@cache
def published_rows(
    dataset: str | None = None, as_printed: bool = False
) -> tuple[PublishedRow, ...]:
    """The rows of all tables: what several tables print of the same settings and inputs is put together.

    The single run comes from the first table that has one, the mean over seeds from the first that has that.
    """
    found: dict[str, PublishedRow] = {}
    for table in tables_by_preference():
        for printed in table.rows:
            if dataset not in (None, printed.dataset) or (
                printed.acr is None and printed.mean is None
            ):
                continue
            row = published_row(table, printed, as_printed)
            place = (
                row.dataset,
                row.model,
                row.sigma,
                row.inputs,
                dict(row.method),
                dict(row.training),
            )
            key = json.dumps(place, sort_keys=True)
            found[key] = _together(found[key], row) if key in found else row
    return tuple(found.values())


def published_row(table: Table, row: TableRow, as_printed: bool = False) -> PublishedRow:
    """A printed row with the settings of its recipe, maybe as its paper's text has them."""
    settings = row.settings_as_printed if as_printed else row.settings
    return PublishedRow(
        dataset=row.dataset,
        model=settings["model"],
        method=method_settings(settings),
        sigma=float(settings["sigma"]),
        inputs=row.inputs,
        source=table.cited,
        radii=table.radii,
        every=row.every,
        acr=row.acr,
        mean=row.mean,
        std=row.std,
        seeds=row.seeds,
        accuracy=tuple(None if percent is None else percent / 100 for percent in row.accuracy),
        note=row.note,
        training=_training({**_defaults(), **settings}),
        of_recipe=not _TRAINING & row.change.keys(),
    )


def _together(first: PublishedRow, second: PublishedRow) -> PublishedRow:
    """`first`, with the single run or the mean over seeds of `second` where it has none."""
    if first.mean is None and second.mean is not None:
        source = _cited(first.source, second.source)
        return dataclasses.replace(
            first, mean=second.mean, std=second.std, seeds=second.seeds, source=source
        )
    if first.acr is None and second.acr is not None:
        source = _cited(second.source, first.source)
        return dataclasses.replace(
            second, mean=first.mean, std=first.std, seeds=first.seeds, source=source
        )
    return first


def _cited(single: str, mean: str) -> str:
    """Both; two tables of one paper as `paper, tables 2 and 3`."""
    paper, comma, place = single.rpartition(", table ")
    other, _, second = mean.rpartition(", table ")
    return (
        f"{paper}, tables {place} and {second}" if comma and paper == other else f"{single}; {mean}"
    )


def method_settings(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The method with every hyperparameter, given or default; `as_printed` is one of the run."""
    method = (config or {}).get("method")
    given = dict(method) if isinstance(method, dict) else {"name": method}
    given.pop("as_printed", None)
    return method_defaults().get(str(given.get("name")), {}) | given


def rows_of(config: Mapping[str, Any]) -> list[PublishedRow]:
    """The rows with the settings of a configuration, in the order of preference."""
    if config.get("self_training") or config.get("init_from"):
        return []  # no ACR was published of models that had more data
    dataset = str(config.get("dataset")).removesuffix("-printed")
    own, rows = method_settings(config), published_rows(dataset, bool(config.get("as_printed")))
    place = config.get("model"), config.get("sigma")
    fits = [row for row in rows if (row.model, row.sigma) == place and _equal(row.method, own)]
    given = _training(config)
    same = [row for row in fits if _equal({name: row.training[name] for name in given}, given)]
    return same or [row for row in fits if row.of_recipe]


def summary_of(config: TrainConfig) -> dict[str, Any]:
    """`acr` of a single run, `acr_mean` over seeds and their `source`, as far as the catalogue has them.

    Of several rows for these settings, each value comes from the first that has it.
    """
    rows = rows_of(dataclasses.asdict(config))
    single = next((row for row in rows if row.acr is not None), None)
    over_seeds = next((row for row in rows if row.mean is not None), None)
    found: dict[str, Any] = {}
    if single:
        found["acr"] = single.acr
    if over_seeds:
        found["acr_mean"] = over_seeds.mean
    if found:
        found["source"] = "; ".join(
            dict.fromkeys(row.source for row in (single, over_seeds) if row)
        )
    return found


def training_differences(config: Mapping[str, Any], row: PublishedRow) -> list[str]:
    """How a configuration of the row's method differs from how its model was trained, in settings that papers fix."""
    return [
        f"{name} = {_printed(ours)} here, {_printed(row.training[name])} there"
        for name, ours in _training(config).items()
        if name in row.training and ours != row.training[name]
    ]


def _printed(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return " ".join(f"{name}={entry}" for name, entry in value.items()) or "as the run"


def _training(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that papers fix, as far as they are given; those of the model behind soft labels together."""
    given = {name: settings[name] for name in _TRAINING if name in settings}
    soft = settings.get("soft_labels")
    if isinstance(soft, Mapping):
        beside = {**soft, **(soft.get("settings") or {})}
        given["soft_labels"] = {name: value for name, value in beside.items() if name not in _FREE}
    return given


@cache
def _defaults() -> dict[str, Any]:
    from smoothcert.config import TrainConfig  # loads YAML, which reports of logs can do without

    fields = [entry for entry in dataclasses.fields(TrainConfig) if entry.name in _TRAINING]
    values = {
        entry.name: entry.default
        if entry.default_factory is dataclasses.MISSING
        else entry.default_factory()
        for entry in fields
    }
    return {**values, "soft_labels": {}}


def _equal(row: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    def same(a: object, b: object) -> bool:
        if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool):
            return math.isclose(a, b, rel_tol=0.01)
        return a == b

    return row.keys() == own.keys() and all(same(value, own[name]) for name, value in row.items())
