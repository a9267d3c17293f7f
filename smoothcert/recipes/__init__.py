"""Recipes: named training configurations, in YAML files.

It must not know how a recipe is trained, and imports neither PyTorch nor NumPy. Names load on first use, so that a
report of logs needs no YAML parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcert.imports import lazy

if TYPE_CHECKING:
    from smoothcert.recipes.recipe import Recipe, load_recipe, templates
    from smoothcert.recipes.shipped import recipe_names

__all__ = ["Recipe", "load_recipe", "recipe_names", "templates"]

_HOME = dict.fromkeys(__all__, "recipe") | {"recipe_names": "shipped"}
__getattr__, __dir__ = lazy(__name__, _HOME)
