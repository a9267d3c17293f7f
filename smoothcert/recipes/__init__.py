"""Recipes (named training configurations, one YAML file each) and the catalogue of tables that the papers print.

It must not know how a recipe is trained, and imports neither PyTorch nor NumPy. Names load on first use, so that a
report of logs needs no YAML parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcert.imports import lazy

if TYPE_CHECKING:
    from smoothcert.recipes.recipe import Recipe, load_recipe, recipe_names, templates

__all__ = ["Recipe", "load_recipe", "recipe_names", "templates"]

__getattr__, __dir__ = lazy(__name__, dict.fromkeys(__all__, "recipe"))
