"""The recipe files beside this one, as plain mappings, and how changes are put into them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any


def shipped() -> dict[str, Traversable]:
    """The YAML files by the names of their recipes, such as mnist/gaussian-0.50, or finetune, for any data set."""
    here = files(__package__)
    folders = {"": here, **{f"{entry.name}/": entry for entry in here.iterdir() if entry.is_dir()}}
    return {
        f"{prefix}{file.name.removesuffix('.yaml')}": file
        for prefix, folder in folders.items()
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    }


@cache
def shipped_settings(name: str) -> dict[str, Any]:
    """What a shipped recipe says, unchecked; not to be written to."""
    from smoothcert.config import (
        read_mapping,
    )  # loads a YAML parser, which reports of logs can do without

    return read_mapping(files(__package__) / f"{name}.yaml", name)


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe with some replaced; entries of fields with keys are replaced one by one."""
    values, changes = dict(values), dict(changes)
    if changes.get("model", values.get("model")) != values.get("model"):
        values.pop("model_options", None)  # which are those of the recipe's network
    there, asked = values.get("method"), changes.get("method")
    if (
        isinstance(there, dict)
        and isinstance(asked, dict)
        and asked.get("name", there.get("name")) == there.get("name")
    ):
        changes["method"] = {
            **there,
            **asked,
        }  # not for another method, whose hyperparameters are others
    for key in ("soft_labels", "self_training", "model_options"):
        if isinstance(values.get(key), dict) and isinstance(changes.get(key), dict):
            changes[key] = {**values[key], **changes[key]}
    return {**values, **changes}
