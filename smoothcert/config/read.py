"""Settings from mappings, YAML and the command line: every value is checked against the type of its field."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources.abc import Traversable
from inspect import cleandoc, getsource
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from smoothcert.errors import ConfigError, none_of, unknown_name

T = TypeVar("T")

_WORDS = {float: "a finite number", int: "a whole number", bool: "true or false", str: "text"}
_OPTIONS = {"radii": "radius", "dataset": "data"}  # which have another name than their field


def checked(kind: type[T], values: Mapping[str, Any], what: str) -> T:
    """`kind(**values)`; misspelt names, missing values and wrong types give clear errors."""
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise unknown_name(what, name, fields)
    missing = [name for name, entry in fields.items() if name not in values and _required(entry)]
    if missing:
        raise ConfigError(f"missing {what}: {', '.join(missing)}")
    return kind(**_converted(kind, values, f"{what}: "))


def check_types(settings: Any) -> None:
    """Give each field of a frozen dataclass the plain value of its type, or refuse what it has."""
    for name, value in _converted(type(settings), vars(settings), "").items():
        object.__setattr__(settings, name, value)


def _converted(kind: type[Any], values: Mapping[str, Any], before: str) -> dict[str, Any]:
    """The values as the fields' types have them, field by field.

    A nested dataclass reads its own mapping: msgspec would drop unknown names in it without a word.
    """
    import msgspec

    hints: dict[str, Any] = {}
    with suppress(NameError):  # types that are imported for type checkers only
        hints = get_type_hints(kind)
    found = dict(values)
    for name, value in values.items():
        hint = hints.get(name, Any)
        if hint is Any or reads_itself(hint):
            continue
        try:
            found[name] = msgspec.convert(_plain(value), hint)
        except (msgspec.ValidationError, OverflowError):
            raise _refused(f"{before}{name}", hint, value) from None
        except TypeError:  # no type of settings: the class that has such a field takes what it gets
            continue
        if not _finite(found[name]):
            raise _refused(f"{before}{name}", hint, value)
    return found


def _plain(value: Any) -> Any:
    """Numbers of arrays as those of Python, also in lists."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _finite(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _refused(name: str, hint: Any, found: Any) -> ConfigError:
    if get_origin(hint) is Literal:
        return none_of(name, str(found), get_args(hint))
    return ConfigError(f"{name} must be {in_words(hint)}, found {found!r}")


def in_words(hint: Any) -> str:
    """A type as users call it."""
    inner = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(in_words(one) for one in inner)
    if get_origin(hint) in (list, tuple):
        return f"a list, of each entry {in_words(inner[0])}"
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, inner))}"
    return "null" if hint is NoneType else _WORDS.get(hint, "a mapping of settings")


def reads_itself(hint: Any) -> bool:
    """Whether a type, or one of its parts, has a `read` that makes it of a mapping."""
    return any(hasattr(one, "read") for one in get_args(hint) or (hint,))


def _required(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def explained(kind: type[Any]) -> dict[str, str]:
    """The settings of a dataclass: its fields that have a docstring below them, by their names."""
    (definition,) = ast.parse(getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(cleandoc(str(text.value.value)).split())
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def option_of(name: str) -> str:
    """``--skip-wrong`` of the setting `skip_wrong`."""
    return f"--{_OPTIONS.get(name, name).replace('_', '-')}"


def as_options(kind: type[Any], values: Mapping[str, Any]) -> list[str]:
    """The command-line words that ask for these settings; one that is None, off or not named needs none."""
    words: list[str] = []
    for name in (entry.name for entry in dataclasses.fields(kind)):
        value = values.get(name)
        if value is not None and value is not False:
            parts = () if value is True else value if isinstance(value, tuple | list) else (value,)
            words += [option_of(name), *map(str, parts)]
    return words


def read_mapping(source: Traversable | Path, name: str) -> dict[str, Any]:
    """The settings in a YAML file; `name` is what an error calls it."""
    try:
        values = read_yaml(source.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"could not read settings from {name}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"expected a YAML mapping of settings in {name}, found {type(values).__name__}"
        )
    return values


def read_yaml(text: str) -> Any:
    """A YAML document, in which 1e-4 is a number, as everybody means it; PyYAML wants 1.0e-4."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (base,), {})
    number = re.compile(r"[-+]?\d+(\.\d*)?e[-+]?\d+", re.IGNORECASE | re.ASCII)
    loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error
