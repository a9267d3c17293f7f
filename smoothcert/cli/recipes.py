"""`smoothcert recipes`."""

from __future__ import annotations

from smoothcert.cli.options import Options, aligned, no_options
from smoothcert.recipes import load_recipe, recipe_names, templates

ABOUT = "The shipped recipes and what was published for them."
add_options = no_options


def run(options: Options) -> None:
    loaded = [load_recipe(name) for name in recipe_names()]
    rows = [
        (recipe.name, str(recipe.published.get("acr", "-")), recipe.about or recipe.config.model)
        for recipe in loaded
    ]
    rows += [(name, "-", about) for name, about in templates().items()]
    print(aligned([("recipe", "published ACR", "about"), *rows]))
