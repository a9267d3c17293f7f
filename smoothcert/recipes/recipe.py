"""Recipes: named, complete training configurations, one YAML file each in the folders beside this file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from smoothcert.config import TrainConfig, build_dataclass, read_mapping
from smoothcert.errors import unknown_name
from smoothcert.recipes.published import rows_of
from smoothcert.recipes.shipped import changed, shipped


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
            found["source"] = "; ".join(
                dict.fromkeys(row.source for row in (single, over_seeds) if row)
            )
        return found


def recipe_names() -> list[str]:
    """Those that are complete."""
    return sorted(name for name in shipped() if "/" in name)


def templates() -> dict[str, str]:
    """The recipes for any data set, by name, and what they are for: some of their settings must be given."""
    known = shipped()
    return {
        name: str(read_mapping(known[name], name)["about"])
        for name in sorted(known)
        if "/" not in name
    }


def load_recipe(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A shipped recipe by name, or a YAML file by path; `overrides` replace fields, or entries of fields with keys."""
    known = shipped()
    source: Traversable | Path = known.get(name, Path(name))
    if not source.is_file():
        raise unknown_name("recipe", name, known)
    values = read_mapping(source, name)
    about = str(values.pop("about", ""))
    values.pop("published", None)  # recipes of older versions had it; the catalogue has it now
    return Recipe(
        name,
        about,
        build_dataclass(TrainConfig, changed(values, overrides or {}), f"setting of recipe {name}"),
    )
