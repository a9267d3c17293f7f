"""`smoothcert list`."""

from __future__ import annotations

import ast
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Literal

from smoothcert.cli.frame import DataDir, Json, command
from smoothcert.cli.output import aligned
from smoothcert.errors import ConfigError, unknown_name


@command("The papers")
def list_(
    kind: Literal["recipes", "methods", "models", "data", "tables"],
    name: str | None = None,
    /,
    *,
    data_dir: DataDir = None,
    results: tuple[Path, ...] = (),
    ledger: bool = False,
    json: Json = False,
) -> None:
    """Recipes, methods, models, data and published tables, or one of them

    Args:
        kind: what to list
        name: one of them; of tables also a paper
        results: for tables: files of measured runs, which `reproduce` writes; default: results/*.jsonl
        ledger: for tables: of each one, what was run and what came out
    """
    if data_dir is not None and kind != "data":
        raise ConfigError(f"--data-dir is where data sets are, and {kind} are not: leave it out")
    if (results or ledger or json) and kind != "tables":
        raise ConfigError(
            f"--results, --ledger and --json are for tables, found {kind}: leave them out"
        )
    if kind == "recipes":
        _recipes(name)
    elif kind == "methods":
        _methods(name)
    elif kind == "models":
        _models(name)
    elif kind == "data":
        _data(name, data_dir)
    else:
        from smoothcert.cli.tables import list_tables

        list_tables(name, results, ledger, json)


def _recipes(name: str | None) -> None:
    from smoothcert.config import dump_config
    from smoothcert.published.catalogue import rows_for
    from smoothcert.recipes import load_recipe, recipe_names, templates

    if name is not None:
        both = [load_recipe(name, as_printed=printed).config for printed in (False, True)]
        ours, text = (dump_config(config).splitlines() for config in both)
        others = [line for line in text if line not in ours]
        print("\n".join([*ours, "\nwith --as-printed, the text of the paper:", *others]))
        return
    rows = [("recipe", "published ACR", "about")]
    for recipe in map(load_recipe, recipe_names()):
        printed = rows_for(asdict(recipe.config))
        single = (row.text(row.acr) for row in printed if row.acr and row.acr.seeds == 1)
        rows.append((recipe.name, next(single, "-"), recipe.about or recipe.config.model))
    print(aligned([*rows, *((name, "-", about) for name, about in templates().items())]))


def _methods(name: str | None) -> None:
    """From their sources, since importing them takes seconds."""
    from smoothcert.methods import DENOISING, METHODS

    known = {**METHODS, **DENOISING}
    if name is not None and name not in known:
        raise unknown_name("method", name, known)
    for one in known if name is None else (name,):
        module, _, title = known[one].rpartition(".")
        source = files(module.rpartition(".")[0]) / f"{module.rpartition('.')[2]}.py"
        body = ast.parse(source.read_text()).body
        found = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == title)
        about = (ast.get_docstring(found) or "").splitlines()
        print(one, *(about if name else about[:1]), sep="\n    ")
        fields = [field for field in found.body if isinstance(field, ast.AnnAssign)]
        print(f"    hyperparameters: {', '.join(map(_default, fields)) or 'none'}")
    if name is None:
        print(
            "\nA method of yours: --method.name mypackage.MyMethod, a dataclass derived from smoothcert.Method"
        )


def _default(field: ast.AnnAssign) -> str:
    return f"{ast.unparse(field.target)}={ast.unparse(field.value) if field.value else '?'}"


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
