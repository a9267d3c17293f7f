"""What recipes say, as plain mappings. One YAML file has all sigmas, and what the paper's text says otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from smoothcert.errors import ConfigError, unknown_name


@cache
def shipped() -> dict[str, Traversable]:
    """The YAML files beside this one: mnist/gaussian, which has several sigmas, or finetune, for any data set."""
    here = files(__package__)
    folders = {"": here, **{f"{entry.name}/": entry for entry in here.iterdir() if entry.is_dir()}}
    return {
        f"{prefix}{file.name.removesuffix('.yaml')}": file
        for prefix, folder in folders.items()
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    }


@cache
def _content(file: str) -> dict[str, Any]:
    from smoothcert.config import read_mapping  # loads YAML, which reports of logs can do without

    return read_mapping(shipped()[file], file)


def names_in(file: str) -> dict[str, float]:
    """Recipes and sigmas: mnist/smoothmix-0.50-onestep and others, where the file is mnist/smoothmix-onestep."""
    before, method, variant = file.rpartition(_content(file)["method"]["name"])
    sigmas = _content(file).get("by_sigma", ())
    return {f"{before}{method}-{sigma:.2f}{variant}": sigma for sigma in sigmas}


def recipe_names() -> list[str]:
    return sorted(name for file in shipped() for name in names_in(file))


@cache
def shipped_settings(name: str, as_printed: bool = False) -> dict[str, Any]:
    """What a shipped recipe says, unchecked; not to be written to."""
    return settings_of(name, as_printed=as_printed)


def settings_of(name: str, sigma: float | None = None, as_printed: bool = False) -> dict[str, Any]:
    """What a recipe says, unchecked: a shipped one by its name, with sigma in it or given, or a YAML file by path.

    `as_printed` puts in its mapping of that name: what the paper's text says where its authors' code and logs, which a
    recipe follows, have something else.
    """
    file = name if name in shipped() else re.sub(r"-\d\.\d\d(?=-|$)", "", name, count=1)
    if file in shipped() and (file == name or name in names_in(file)):
        values, sigma = dict(_content(file)), names_in(file).get(name, sigma)
    elif Path(name).is_file():
        from smoothcert.config import read_mapping

        values = read_mapping(Path(name), name)
    else:
        raise unknown_name("recipe", name, [*shipped(), *recipe_names()])
    by_sigma = values.pop("by_sigma", None)
    if isinstance(by_sigma, Mapping) and isinstance(by_sigma.get(sigma), Mapping):
        values = changed({**values, "sigma": sigma}, by_sigma[sigma])
    elif by_sigma is not None:
        known = list(by_sigma) if isinstance(by_sigma, Mapping) else by_sigma
        raise ConfigError(
            f"expected a sigma that recipe {name} has settings for (by_sigma: {known}), found {sigma}: give one of "
            "these, or the full name of the recipe whose numbers to take, such as mnist/smoothmix-0.50"
        )
    printed = values.pop("as_printed") if isinstance(values.get("as_printed"), Mapping) else {}
    return {**changed(values, printed), "as_printed": True} if as_printed else values


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe with some replaced; entries of fields with keys are replaced one by one."""
    new = dict(values)
    if changes.get("model", new.get("model")) != new.get("model"):
        new.pop("model_options", None)  # which are those of the recipe's network
    for key, asked in changes.items():
        there = new.get(key)
        if isinstance(there, Mapping) and isinstance(asked, Mapping):
            alike = asked.get("name", there.get("name")) == there.get("name")
            new[key] = changed(there, asked) if alike else asked  # another method has others
        else:
            new[key] = asked
    return new


def change_words(changes: Mapping[str, Any]) -> list[str]:
    """The changes of a recipe as options of `smoothcert train`."""
    from smoothcert.config import option_of

    words: list[str] = []
    for key, value in changes.items():
        name = option_of(key)
        if isinstance(value, bool):
            words.append(name if value else name.replace("--", "--no-", 1))
        elif isinstance(value, Mapping):
            words += [word for entry, v in value.items() for word in (f"{name}.{entry}", _text(v))]
        else:
            words += [name, _text(value)]
    return words


def _text(value: Any) -> str:
    return json.dumps(value).strip('"')
