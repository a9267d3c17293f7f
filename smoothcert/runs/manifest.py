"""manifest.json, read as if anyone could have written it: what is computed with is of its kind, finite and not huge."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smoothcert.errors import StoreError

_LARGEST = 2**63  # of a number: sums and products of such numbers are finite in double precision
_DEEPEST = 20  # lists in lists; ours has 3


def _whole(value: object) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST  # type: ignore[arg-type]  # false for nan and inf


def _text(value: object) -> bool:
    return isinstance(value, str)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _looks(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(map(_whole, value)))


def _numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_number, value))


def _rows(value: object) -> bool:
    return isinstance(value, list) and all(_numbers(row) and row for row in value)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


_KINDS: dict[Callable[[object], bool], tuple[str, str]] = {
    _whole: (
        "a whole number",
        "n n0 start? every? max? classes? seed? noise_seed? steps noises attack_version",
    ),
    _number: (
        "a finite number",
        "alpha alpha_each split_alpha tau beta early_alpha sigma? tolerance?",
    ),
    _text: (
        "text",
        "noise dataset split procedure norm model data network noise_stream device_type precision attack model_json",
    ),
    _flag: ("true or false", "simultaneous skip_wrong as_printed"),
    _looks: ("text or whole numbers", "looks"),
    _numbers: ("finite numbers", "radii?"),
    _rows: ("rows of finite numbers", "behaviour"),
    _texts: ("a list of texts", "prepared?"),
}
"""Of the entries of an identity, where they are there. Those with ? may also be null."""


def read_manifest(path: Path) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """Identity, number of inputs and environment."""
    try:
        values = json.loads(path.read_bytes())
        identity, inputs, environment = values["identity"], values["inputs"], values["environment"]
        if not (isinstance(identity, dict) and isinstance(environment, dict)):
            raise TypeError("identity and environment must be objects")
        if not _nested(values, _DEEPEST):
            raise TypeError("it is nested too deeply")
        _require("inputs", inputs, _whole, "a whole number")
        _require("values", environment.get("values", 0), _whole, "a whole number")
        _require("skipped", environment.get("skipped") or [], _texts, "a list of texts")
        for fits, (kind, names) in _KINDS.items():
            for name in names.split():
                found = identity.get(name.rstrip("?"), _ABSENT)
                if found is not _ABSENT and not (found is None and name.endswith("?")):
                    _require(name.rstrip("?"), found, fits, kind)
        return identity, inputs, environment
    except FileNotFoundError as error:
        raise StoreError(f"{path.parent} is not a result store: it has no manifest.json") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{path} is damaged: expected an object with identity, inputs and environment ({error}); "
            "restore it, or certify again under another name"
        ) from error


_ABSENT = object()


def _require(name: str, value: object, fits: Callable[[object], bool], kind: str) -> None:
    if not fits(value):
        raise TypeError(f"expected {name} as {kind}, found {repr(value)[:60]}")


def _nested(value: object, left: int) -> bool:
    """Whether it has at most so many levels."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left > 0 and all(_nested(entry, left - 1) for entry in inside)
