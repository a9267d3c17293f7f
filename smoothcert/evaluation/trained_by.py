"""Which recipe, with which changes, a run was trained by; and its settings without places of a machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

from smoothcert.config import TrainConfig, checked
from smoothcert.published.compared import FREE
from smoothcert.published.row import method_settings
from smoothcert.recipes import load_recipe, recipe_names


def settings_in(config: Mapping[str, Any], place: str) -> dict[str, Any]:
    """All settings, where those that the file leaves out have their defaults; refused if they are none of training."""
    return dataclasses.asdict(checked(TrainConfig, config, f"setting in {place}"))


def training_key(config: TrainConfig) -> str:
    """The same for trainings that no paper tells apart; another seed is another training."""
    given = dataclasses.asdict(config)
    kept = {name: value for name, value in comparable(given).items() if name not in FREE}
    start = last_parts(config.init_from)
    return json.dumps([kept, config.seed, config.as_printed, start], sort_keys=True)


def named(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The recipe that is nearest to these settings, and the changes that lead from it to them."""
    own = comparable(config)
    apart = {
        name: _changes(settings, own)
        for name, settings in _recipes(bool(config["as_printed"])).items()
        if settings["method"]["name"] == own["method"]["name"]
    }
    name = min(apart, key=lambda name: (_count(apart[name]), name), default="")
    return name, placeless(apart.get(name, own))


@cache
def _recipes(as_printed: bool) -> dict[str, dict[str, Any]]:
    """The settings of all recipes."""
    configs = {name: load_recipe(name, as_printed=as_printed).config for name in recipe_names()}
    return {name: comparable(dataclasses.asdict(config)) for name, config in configs.items()}


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """With all hyperparameters of the method, and without what is no choice of a recipe."""
    soft = {name: value for name, value in config["soft_labels"].items() if name != "folder"}
    kept = {**config, "method": method_settings(config), "soft_labels": soft}
    return {name: kept[name] for name in kept if name not in ("seed", "as_printed", "init_from")}


def _changes(settings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in own.items():
        there = settings.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            if inner := _changes(there, value):
                found[name] = inner
        elif (list(value) if isinstance(value, tuple) else value) != there:
            found[name] = value
    return found


def _count(changes: Mapping[str, Any]) -> int:
    return sum(_count(v) if isinstance(v, Mapping) else 1 for v in changes.values())


def placeless(value: Any) -> Any:
    """Settings without places of this machine: of a path its last part alone is kept."""
    if isinstance(value, Mapping):
        return {key: None if key == "folder" else placeless(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [placeless(entry) for entry in value]
    if isinstance(value, str):
        kind, colon, rest = value.rpartition(":")
        return f"{kind}{colon}{PurePath(rest).name}" if PurePath(rest).is_absolute() else value
    return value


def last_parts(path: str | None) -> str | None:
    """A run folder as RECIPE/SEED."""
    return None if path is None else "/".join(PurePath(path).parts[-2:])
