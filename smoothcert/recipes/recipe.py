"""Recipes: named, complete training configurations, as the YAML files in the folders beside this file have them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.config import TrainConfig, checked
from smoothcert.recipes.published import rows_of
from smoothcert.recipes.shipped import changed, settings_of, shipped


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


def templates() -> dict[str, str]:
    """The recipes for any data set, by name, and what they are for: some of their settings must be given."""
    return {name: settings_of(name)["about"] for name in sorted(shipped()) if "/" not in name}


def load_recipe(
    name: str, overrides: Mapping[str, Any] | None = None, as_printed: bool = False
) -> Recipe:
    """A shipped recipe by name, or a YAML file by path; `overrides` replace fields, or entries of fields with keys.

    `as_printed`, which may be among the overrides, is the paper's text in place of its authors' code and logs.

    >>> from smoothcert import load_recipe
    >>> recipe = load_recipe("mnist/smoothmix-0.50", {"epochs": 10})
    >>> recipe.config.epochs, recipe.config.method["name"], recipe.published["acr"]
    (10, 'smoothmix', 1.694)
    """
    asked = {"as_printed": True} if as_printed else {}
    asked |= overrides or {}
    values = settings_of(name, asked.get("sigma"), bool(asked.get("as_printed")))
    about = str(values.pop("about", ""))
    what = f"setting of recipe {name}"
    return Recipe(name, about, checked(TrainConfig, changed(values, asked), what))
