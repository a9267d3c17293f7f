"""From a mapping to a checked dataclass, with clear errors."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.resources.abc import Traversable
from itertools import repeat
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from smoothcert.config.choices import check_choice
from smoothcert.errors import ConfigError, unknown_name

T = TypeVar("T")

_WRONG = (TypeError, ValueError, OverflowError)
_WORDS = {float: "a finite number", int: "a whole number", bool: "true or false", str: "text"}


def build_dataclass(kind: type[T], values: Mapping[str, Any], what: str) -> T:
    """`kind(**values)`; misspelt names, missing values and wrong types give clear errors."""
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise unknown_name(what, name, fields)
    missing = [name for name, entry in fields.items() if name not in values and _required(entry)]
    if missing:
        raise ConfigError(f"missing {what}: {', '.join(missing)}")
    return kind(**_checked(kind, values, f"{what}: "))


def check_types(settings: Any) -> None:
    """Give each field of a frozen dataclass the plain value of its type, or refuse what it has."""
    for name, value in _checked(type(settings), vars(settings), "").items():
        object.__setattr__(settings, name, value)


def _checked(kind: type[Any], values: Mapping[str, Any], before: str) -> dict[str, Any]:
    """The values as the fields' types have them; a nested field is checked by its owner."""
    hints: dict[str, Any] = {}
    with suppress(NameError):  # types that are imported for type checkers only
        hints = get_type_hints(kind)
    nested = {entry.name for entry in dataclasses.fields(kind) if entry.metadata.get("nested")}
    found = dict(values)
    for name, value in values.items():
        if name in hints and name not in nested:
            hint = hints[name]
            try:
                found[name] = _as(hint, value)
            except _WRONG:
                if get_origin(hint) is Literal:
                    check_choice(f"{before}{name}", str(value), hint)
                raise ConfigError(
                    f"{before}{name} must be {_told(hint)}, found {value!r}"
                ) from None
    return found


def _as(hint: Any, value: Any) -> Any:
    """A value as a type has it, from what YAML, JSON and Python have; an error if it is of another.

    What is neither a number nor text nor made of these is left to the class that takes it.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for one in inner:
            with suppress(*_WRONG):
                return _as(one, value)
    elif origin is Literal:
        if value in inner:
            return value
    elif origin in (list, tuple):
        if isinstance(value, Sequence) and not isinstance(value, str):
            alike = origin is list or Ellipsis in inner
            kinds: Iterable[Any] = repeat(inner[0], len(value)) if alike else inner
            return origin(_as(kind, one) for kind, one in zip(kinds, value, strict=True))
    elif hint in (float, int):
        right = isinstance(value, Integral if hint is int else Real)
        if right and not isinstance(value, bool) and math.isfinite(number := hint(value)):
            return number
    elif hint in (bool, str, NoneType):
        if isinstance(value, hint):
            return value
    elif (origin or hint) in (dict, Mapping):
        if isinstance(value, Mapping):
            return {key: _as(inner[1] if inner else Any, one) for key, one in value.items()}
    else:
        return value
    raise TypeError


def _told(hint: Any) -> str:
    """A type in words."""
    inner = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_told(one) for one in inner)
    if get_origin(hint) in (list, tuple):
        return f"a list, of each entry {_told(inner[0])}"
    return "null" if hint is NoneType else _WORDS.get(hint, "a mapping of settings")


def _required(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def read_mapping(source: Traversable | Path, name: str) -> dict[str, Any]:
    """The settings in a YAML file; `name` is what an error calls it."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes 1e-4 for a number, as everybody means it; PyYAML wants 1.0e-4."""

    number = re.compile(r"[-+]?\d+(\.\d*)?e[-+]?\d+", re.IGNORECASE | re.ASCII)
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    try:
        values = yaml.load(source.read_text(), Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"could not read settings from {name}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"expected a YAML mapping of settings in {name}, found {type(values).__name__}"
        )
    return values
