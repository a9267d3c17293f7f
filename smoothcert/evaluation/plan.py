"""Which runs the rows of a table, of a data set's recipes or of one recipe need.

Runs lie in OUT/DATASET/ROW/SEED, wherever they are needed, so that several tables share the runs that they have in
common.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.data import DATASETS
from smoothcert.data.corruptions import CORRUPTIONS, SEVERITIES
from smoothcert.errors import ConfigError, unknown_name
from smoothcert.evaluation.reproduce import Certification, Job, joined
from smoothcert.methods import build_method
from smoothcert.published.catalogue import PaperTable, load_table, namesakes, unknown_table
from smoothcert.published.row import Row
from smoothcert.recipes import load_recipe, recipe_names
from smoothcert.recipes.shipped import changed


@dataclass(frozen=True)
class Target:
    """A row that is a model, and the images that it is certified on, as a step and as corruptions."""

    row: Row
    every: int
    corruptions: tuple[tuple[str, int | None] | None, ...] = (None,)
    best: bool = False  # one of several models, the best of which a table prints


def targets(what: str, patterns: Sequence[str] = ()) -> list[Target]:
    """The rows of a table, of a data set or of one recipe; those whose label or recipe matches a pattern."""
    if what in recipe_names():
        return _of_recipes([what], patterns)
    return _of_table(load_table(what), patterns) if "/" in what else _of_dataset(what, patterns)


def plan(
    wanted: Sequence[Target],
    out: Path,
    seeds: Sequence[int] = (0,),
    *,
    as_printed: bool = False,
    data: str | None = None,
    every: int | None = None,
) -> list[Job]:
    """A job for each run of these rows, maybe on other data, and maybe certified on each `every`-th image."""
    corrupted = next((target.row for target in wanted if target.corruptions != (None,)), None)
    if corrupted and data is not None:
        raise ConfigError(
            f"{corrupted.table} is about {corrupted.corruptions}: it cannot be made on other data "
            f"({data})"
        )
    if len(seeds) > 1 and any(target.best for target in wanted):
        raise ConfigError(
            "the table has the best model for each radius; of several seeds the luckiest would win: "
            "give one seed"
        )
    jobs = []
    for target in wanted:
        step = every or (1 if data is not None else target.every)
        stores = tuple(Certification(step, each) for each in target.corruptions)
        jobs += [_job(target.row, out, seed, stores, as_printed, data) for seed in seeds]
    return joined(jobs)


def _of_recipes(names: Sequence[str], patterns: Sequence[str]) -> list[Target]:
    """Recipes as rows that nothing is printed of by itself."""
    found = []
    for name in names:
        config = load_recipe(name).config
        method = build_method(config.method)
        needs_more = config.init_from or config.self_training
        if method.denoises or (needs_more and not patterns and len(names) > 1):
            continue  # no certificates and no published row; or what it needs is no part of the data set
        found.append(Target(Row("", "", name.partition("/")[2], recipe=name), 1))
    if not found:
        raise ConfigError(
            f"{', '.join(names)}: denoisers have no certificates to reproduce; choose other rows"
        )
    sigma = {target.row.recipe: target.row.settings["sigma"] for target in found}
    return sorted(found, key=lambda target: (sigma[target.row.recipe], target.row.label))


def _of_dataset(dataset: str, patterns: Sequence[str]) -> list[Target]:
    known = [name for name in recipe_names() if name.startswith(f"{dataset}/")]
    if not known:
        if namesakes(dataset):
            raise unknown_table(dataset)
        unknown = unknown_name(
            "data set with recipes", dataset, {name.split("/")[0] for name in recipe_names()}
        )
        raise ConfigError(f"{unknown} (`smoothcert list tables` lists the tables)")
    names = {name.partition("/")[2]: name for name in known}
    _check_patterns(dataset, patterns, names)
    chosen = {one for p in patterns or ["*"] for one in fnmatch.filter(names, p)}
    return _of_recipes([names[one] for one in sorted(chosen)], patterns)


def _of_table(table: PaperTable, patterns: Sequence[str]) -> list[Target]:
    if table.reason:
        raise ConfigError(f"{table.name} cannot be made: {table.reason}")
    _check_patterns(
        table.name, patterns, {name for row in table.rows for name in (row.label, row.recipe)}
    )
    chosen = [row for row in table.rows if _matches(row, patterns)]
    found = [
        Target(model, _step(row, model), _corruptions(table), bool(row.best_of))
        for row in chosen
        for model in (row.best_of or ([row] if row.recipe else []))
    ]
    if not found:
        raise ConfigError(
            f"{', '.join(row.label for row in chosen)}: {table.name} quotes this from elsewhere, "
            "so there is nothing to train; give other --rows"
        )
    return found


def _check_patterns(what: str, patterns: Sequence[str], names: Collection[str]) -> None:
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise unknown_name(f"row of {what}", pattern, {name for name in names if name})


def _matches(row: Row, patterns: Sequence[str]) -> bool:
    names = (row.label, row.recipe)
    return not patterns or any(fnmatch.fnmatch(name, p) for p in patterns for name in names)


def _step(row: Row, model: Row) -> int:
    """The step that gives as many images as the row has, which may be the best of this model and others."""
    images = 10_000 if row.corruptions else DATASETS[model.dataset].test_size
    return row.every or images // row.images


def _corruptions(table: PaperTable) -> tuple[tuple[str, int | None] | None, ...]:
    if not table.corruptions:
        return (None,)
    graded = table.corruptions == "cifar10-c"
    severities = [table.severity] if table.severity or not graded else SEVERITIES
    return tuple((kind, s) for s in severities for kind in CORRUPTIONS[table.corruptions])


def _job(
    row: Row,
    out: Path,
    seed: int,
    stores: tuple[Certification, ...],
    as_printed: bool,
    data: str | None,
) -> Job:
    other = {} if data in (None, row.dataset) else {"dataset": data}
    changes = {**(changed(row.change, row.as_printed) if as_printed else row.change), **other}
    shared, first = None, None
    if build_method(row.settings["method"]).uses_soft_labels:
        # another network or other data have soft labels of their own
        others: dict[str, Any] = {k: changes[k] for k in ("model", "dataset") if k in changes}
        shared = out / row.dataset / ",".join(["soft-labels", *_words(others, as_printed)])
    if row.starts_from:
        recipe, before = row.starts_from["recipe"], {**row.starts_from.get("change", {}), **other}
        place = _folder(out, recipe, before, seed, as_printed)
        first = Job(recipe, seed, place, before, as_printed)
    place = _folder(out, row.recipe, changes, seed, as_printed)
    return Job(row.recipe, seed, place, changes, as_printed, stores, shared, first)


def _folder(
    out: Path, recipe: str, changes: Mapping[str, Any], seed: int, as_printed: bool
) -> Path:
    dataset, _, name = recipe.partition("/")
    return out / dataset / ",".join([name, *_words(changes, as_printed)]) / f"seed{seed}"


def _words(changes: Mapping[str, Any], as_printed: bool) -> list[str]:
    flat: dict[str, Any] = {
        key: value for key, value in changes.items() if not isinstance(value, Mapping)
    }
    for values in changes.values():
        flat |= values if isinstance(values, Mapping) else {}
    # of data of one's own the last part of its path, since names of folders are limited
    words = [
        re.sub(r"[^\w.=-]", "", f"{key}={str(value).rpartition('/')[2]}")
        for key, value in flat.items()
    ]
    return [*words, *["as-printed"] * as_printed]
