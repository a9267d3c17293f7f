"""Recipes: named, complete training configurations, one YAML file each in the folders beside this file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from smoothcert.config import TrainConfig, build_dataclass, read_mapping
from smoothcert.errors import unknown_name
from smoothcert.recipes.published import rows_of


@dataclass(frozen=True)
class Recipe:
    """A named, complete TrainConfig, with what was published for it."""

    name: str
    about: str
    config: TrainConfig

    @property
    def published(self) -> dict[str, Any]:
        """`acr` of a single run, `acr_mean` over seeds and their `source`, as far as the catalogue has them.

        Of several rows for these settings, each value comes from the first that has it.
        """
        rows = rows_of(dataclasses.asdict(self.config))
        single = next((row for row in rows if row.acr is not None), None)
        over_seeds = next((row for row in rows if row.mean is not None), None)
        found: dict[str, Any] = {}
        if single:
            found["acr"] = single.acr
        if over_seeds:
            found["acr_mean"] = over_seeds.mean
        if found:
            found["source"] = "; ".join(dict.fromkeys(row.source for row in (single, over_seeds) if row))
        return found


def recipe_names() -> list[str]:
    """Those that are complete."""
    return sorted(name for name in _shipped() if "/" in name)


def templates() -> dict[str, str]:
    """The recipes for any data set, by name, and what they are for: some of their settings must be given."""
    shipped = _shipped()
    return {name: str(read_mapping(shipped[name], name)["about"]) for name in sorted(shipped) if "/" not in name}


def load_recipe(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A shipped recipe by name, or a YAML file by path; `overrides` replace fields, or entries of fields with keys."""
    shipped = _shipped()
    source: Traversable | Path = shipped.get(name, Path(name))
    if not source.is_file():
        raise unknown_name("recipe", name, shipped)
    values = read_mapping(source, name)
    about = str(values.pop("about", ""))
    values.pop("published", None)  # recipes of older versions had it; the catalogue has it now
    changes = dict(overrides or {})
    if changes.get("model", values.get("model")) != values.get("model"):
        values.pop("model_options", None)  # which are those of the recipe's network
    there, asked = values.get("method"), changes.get("method")
    if (
        isinstance(there, dict)
        and isinstance(asked, dict)
        and asked.get("name", there.get("name")) == there.get("name")
    ):
        changes["method"] = {**there, **asked}  # not for another method, whose hyperparameters are others
    for key in ("soft_labels", "self_training", "model_options"):
        if isinstance(values.get(key), dict) and isinstance(changes.get(key), dict):
            changes[key] = {**values[key], **changes[key]}
    config = build_dataclass(TrainConfig, {**values, **changes}, f"setting of recipe {name}")
    return Recipe(name, about, config)


def _shipped() -> dict[str, Traversable]:
    """The YAML files by the names of their recipes, such as mnist/gaussian-0.50, or finetune, for any data set."""
    here = files(__package__)
    folders = {"": here, **{f"{entry.name}/": entry for entry in here.iterdir() if entry.is_dir()}}
    return {
        f"{prefix}{file.name.removesuffix('.yaml')}": file
        for prefix, folder in folders.items()
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    }
