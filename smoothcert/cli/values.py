"""From the words of a command line to values: numbers, paths, lists and mappings as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from smoothcert.config.read import read_yaml, reads_itself
from smoothcert.errors import ConfigError, none_of
from smoothcert.runs.remote import is_remote

Place = str | Path
"""A path, or the address of a folder on a server, which stays text: a path has no double slash."""


def plain(hint: Any) -> Any:
    """A type without its None."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    return Union[*(one for one in get_args(hint) if one is not NoneType)]


def read(flag: str, hint: Any, tokens: Any) -> Any:
    """What words mean as a type; a wrong one is a ConfigError."""
    kind = plain(hint)
    if get_origin(kind) is dict or reads_itself(kind):
        return _mapping(flag, tokens)
    words = [token.value for token in tokens]
    if get_origin(kind) not in (list, tuple):
        return _value(flag, kind, words[0])
    one = get_args(kind)[0]
    if one in (int, float):
        words = [part for word in words for part in word.strip("[] ").split(",") if part.strip()]
    return get_origin(kind)(_value(flag, one, word) for word in words)


def _value(flag: str, kind: Any, word: str) -> Any:
    if get_origin(kind) is Literal:
        if word not in get_args(kind):
            raise none_of(flag, word, get_args(kind))
        return word
    read, expected, example = _READERS[kind]
    try:
        value = read(word)
    except ValueError:
        raise ConfigError(
            f"{flag} takes {expected}, found {word!r}; write for example {flag} {example}"
        ) from None
    if flag == "--data-dir" and not value.expanduser().is_dir():
        raise ConfigError(f"{flag} is a folder with data sets, found none at {word}: make it first")
    return value


def whole_number(text: str) -> int:
    """Also 1e5, since that is exact."""
    with suppress(ValueError, OverflowError):
        number = int(float(text))
        if abs(number) >= 2**53:  # beyond, a float does not have every digit
            return int(text)
        if number == float(text):
            return number
    raise ValueError(text)


def number(text: str) -> float:
    """Also 2/255, as radii of l-infinity are given."""
    top, slash, bottom = text.partition("/")
    with suppress(ZeroDivisionError):
        value = float(top) / float(bottom) if slash else float(top)
        if math.isfinite(value):
            return value
    raise ValueError(text)


def place(text: str) -> Place:
    return text if is_remote(text) else Path(text)


def on_disk(text: str) -> Path:
    if is_remote(text):
        raise ConfigError(
            f"expected a path on this machine, found {text}: copy it here, or upload it after"
        )
    return Path(text)


_READERS: dict[Any, tuple[Callable[[str], Any], str, str]] = {
    int: (whole_number, "a whole number", "100"),
    float: (number, "a number", "0.25"),
    Path: (on_disk, "a path", "runs/a"),
    Place: (place, "a path", "runs/a"),
    str: (str, "text", ""),
}


def _mapping(flag: str, tokens: Any) -> dict[str, Any]:
    """`--method.name x --method.eta 5`, or one YAML mapping; entries are YAML, so that 5 is a number."""
    if not isinstance(tokens, Mapping):
        found = _yaml(flag, tokens[0].value)
        if not isinstance(found, dict) or len(tokens) > 1:
            entry = "name" if flag == "--method" else "KEY"
            raise ConfigError(
                f"{flag} has several settings, found {tokens[0].value!r}: write {flag}.{entry} ..."
            )
        return found
    return {
        key: _mapping(flag, value)
        if isinstance(value, Mapping)
        else _yaml(f"{flag}.{key}", value[0].value)
        for key, value in tokens.items()
    }


def _yaml(flag: str, text: str) -> Any:
    try:
        return read_yaml(text)
    except ValueError:
        raise ConfigError(f"{flag} takes a value as YAML has it, found {text!r}") from None
