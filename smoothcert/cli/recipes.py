"""`smoothcert recipes`."""

from __future__ import annotations

from dataclasses import asdict

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, aligned
from smoothcert.config import TrainConfig, dump_config
from smoothcert.published.catalogue import rows_for
from smoothcert.recipes import load_recipe, recipe_names, templates

ABOUT = "The shipped recipes and what was published for them, or one with all its settings."


def add_options(parser: ArgumentParser) -> None:
    shown = "recipe to print, e.g. mnist/smoothmix-0.50"
    parser.add_argument("name", type=str, nargs="?", default=None, help=shown)


def run(options: Options) -> None:
    if options.name is not None:
        both = [load_recipe(options.name, as_printed=printed).config for printed in (False, True)]
        ours, text = (dump_config(config).splitlines() for config in both)
        others = [line for line in text if line not in ours]
        print("\n".join([*ours, "\nwith --as-printed true, the text of the paper:", *others]))
        return
    loaded = [load_recipe(name) for name in recipe_names()]
    rows = [(r.name, _published(r.config), r.about or r.config.model) for r in loaded]
    rows += [(name, "-", about) for name, about in templates().items()]
    print(aligned([("recipe", "published ACR", "about"), *rows]))


def _published(config: TrainConfig) -> str:
    """The ACR of the preferred row of a single run."""
    single = (row for row in rows_for(asdict(config)) if row.acr and row.acr.seeds == 1)
    return next((row.text(row.acr) for row in single), "-")
