"""`smoothcert list`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from smoothcert.cli.frame import DataDir, command
from smoothcert.cli.output import aligned
from smoothcert.errors import ConfigError, unknown_name


@command("The papers")
def list_(
    kind: Literal["recipes", "methods", "models", "data", "tables"],
    name: str | None = None,
    /,
    *,
    data_dir: DataDir = None,
) -> None:
    """Recipes, methods, models, data and published tables, or one of them

    Args:
        kind: what to list
        name: one of them; of tables also a paper
    """
    if data_dir is not None and kind != "data":
        raise ConfigError(f"--data-dir is where data sets are, and {kind} are not: leave it out")
    if kind == "recipes":
        _recipes(name)
    elif kind == "methods":
        _methods(name)
    elif kind == "models":
        _models(name)
    elif kind == "data":
        _data(name, data_dir)
    else:
        _tables(name)


def _recipes(name: str | None) -> None:
    from smoothcert.config import dump_config
    from smoothcert.recipes import load_recipe, recipe_names, templates

    if name is not None:
        both = [load_recipe(name, as_printed=printed).config for printed in (False, True)]
        ours, text = (dump_config(config).splitlines() for config in both)
        others = [line for line in text if line not in ours]
        print("\n".join([*ours, "\nwith --as-printed, the text of the paper:", *others]))
        return
    loaded = [load_recipe(name) for name in recipe_names()]
    rows = [
        (recipe.name, str(recipe.published.get("acr", "-")), recipe.about or recipe.config.model)
        for recipe in loaded
    ]
    rows += [(name, "-", about) for name, about in templates().items()]
    print(aligned([("recipe", "published ACR", "about"), *rows]))


def _methods(name: str | None) -> None:
    from smoothcert.methods import DENOISING, METHODS, method_class

    for one in (*METHODS, *DENOISING) if name is None else (name,):
        found = method_class(one)
        about = (found.__doc__ or "").strip().splitlines()
        print(one, *(about if name else about[:1]), sep="\n    ")
        values = ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(found))
        print(f"    hyperparameters: {values or 'none'}")
    if name is None:
        print(
            "\nA method of yours: --method.name mypackage.MyMethod, a dataclass derived from smoothcert.Method"
        )


def _models(name: str | None) -> None:
    from smoothcert.models import MODELS

    if name is not None and name not in MODELS:
        raise unknown_name("model", name, MODELS)
    print(aligned([entry for entry in MODELS.items() if name in (None, entry[0])]))


def _data(name: str | None, data_dir: Path | None) -> None:
    from smoothcert.data import DATASETS
    from smoothcert.data.catalogue import locate
    from smoothcert.data.found import found_below
    from smoothcert.data.places import roots

    if name is not None and name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    rows, known = [("data", "classes", "shape", "train + test", "place")], set[Path]()
    for info in DATASETS.values() if name is None else (DATASETS[name],):
        place = locate(info.name, data_dir)
        known |= set() if place is None else {place, *place.parents}
        shape, sizes = "x".join(map(str, info.shape)), f"{info.train_size} + {info.test_size}"
        found = "not on this machine" if place is None else str(place)
        rows.append((info.name, str(info.classes), shape, sizes, found))
    print(aligned(rows))
    if name is not None:
        return
    places = [root for root in roots(data_dir) if root.is_dir()]
    seen = dict(entry for root in places for entry in found_below(root))
    others = [entry for entry in seen.items() if Path(entry[0].partition(":")[2]) not in known]
    if others:
        print("\nother data found:")
        print(aligned(others))
    print(
        "\nany data of yours: folder:PATH (pictures), tar:PATH (pictures and labels in tar files),\n"
        "npz:PATH (arrays), hf-dataset:NAME (package datasets); corrupted images: cifar10-c:fog/3,\n"
        "cifar10-c:all, mnist-c:fog; pseudo-labelled ones for self-training: --self-training.path FILE"
    )


def _tables(name: str | None) -> None:
    from smoothcert.cli.tables import print_table
    from smoothcert.recipes.tables import load_table, table_names

    names = table_names(name)
    if not names:
        print_table(load_table(str(name)))
        return
    rows = [("table", "data", "rows", "about")]
    for table in map(load_table, names):
        title = table.title + (f"; not made, since {table.reason}" if table.reason else "")
        made = str(len(table.rows) + len(table.best))
        rows.append((table.name, ", ".join(table.datasets) or "-", made, title))
    print(aligned(rows))
    print("\n`smoothcert list tables NAME` prints one, `smoothcert reproduce NAME` makes it again")
