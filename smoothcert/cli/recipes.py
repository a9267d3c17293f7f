"""`smoothcert recipes`."""

from __future__ import annotations

from smoothcert.cli.options import Options, aligned, no_options
from smoothcert.config import load_recipe, recipe_names

ABOUT = "The shipped recipes and what was published for them."
add_options = no_options


def run(options: Options) -> None:
    loaded = [load_recipe(name) for name in recipe_names()]
    rows = [
        (recipe.name, str(recipe.published.get("acr", "-")), recipe.about or recipe.config.model) for recipe in loaded
    ]
    print(aligned([("recipe", "published ACR", "about"), *rows]))
