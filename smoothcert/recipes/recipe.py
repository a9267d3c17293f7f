"""Recipes: named, complete training configurations, as the YAML files in the folders beside this file have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.config import TrainConfig, checked
from smoothcert.recipes.shipped import changed, settings_of, shipped


@dataclass(frozen=True)
class Recipe:
    """A named, complete TrainConfig."""

    name: str
    about: str
    config: TrainConfig


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
    >>> recipe.config.epochs, recipe.config.method["name"]
    (10, 'smoothmix')
    """
    asked = {"as_printed": True} if as_printed else {}
    asked |= overrides or {}
    values = settings_of(name, asked.get("sigma"), bool(asked.get("as_printed")))
    about = str(values.pop("about", ""))
    what = f"setting of recipe {name}"
    return Recipe(name, about, checked(TrainConfig, changed(values, asked), what))
