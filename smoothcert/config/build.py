"""From a mapping to a checked dataclass, with clear errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from smoothcert.config.choices import check_choice
from smoothcert.errors import ConfigError, unknown_name

T = TypeVar("T")


def build_dataclass(kind: type[T], values: Mapping[str, Any], what: str) -> T:
    """`kind(**values)`; misspelt names, missing values and wrong types give clear errors."""
    from jsonargparse import ArgumentParser  # its type checks come from the annotations

    fields = {entry.name: entry for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise unknown_name(what, name, fields)
    missing = [name for name, entry in fields.items() if name not in values and _required(entry)]
    if missing:
        raise ConfigError(f"missing {what}: {', '.join(missing)}")
    nested = {name for name, entry in fields.items() if entry.metadata.get("nested")}
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, skip=nested)
    try:
        checked = parser.parse_object(
            {name: value for name, value in values.items() if name not in nested}
        ).as_dict()
    except Exception as error:
        for name, hint in _words_of(kind).items():
            check_choice(f"{what}: {name}", str(values.get(name, get_args(hint)[0])), hint)
        raise ConfigError(f"unusable {what}: {' '.join(str(error).split())}") from error
    return kind(**checked, **{name: value for name, value in values.items() if name in nested})


def _words_of(kind: type[Any]) -> dict[str, Any]:
    """Those fields that take one of a few words."""
    with suppress(NameError):  # types that are imported for type checkers only
        return {
            name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is Literal
        }
    return {}


def _required(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def read_mapping(source: Traversable | Path, name: str) -> dict[str, Any]:
    """The settings in a YAML file; `name` is what an error calls it."""
    import yaml

    try:
        values = yaml.safe_load(source.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"could not read settings from {name}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"expected a YAML mapping of settings in {name}, found {type(values).__name__}"
        )
    return values
