"""The code of networks that are none of ours, as model.json names it: where it lies, and that it is as it was."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.errors import ModelError
from smoothcert.imports import Code, find_code

if TYPE_CHECKING:
    from smoothcert.runs.folder import ModelSpec


def code_named(spec: ModelSpec) -> list[str]:
    """The networks by dotted path that a description names, in parts of it too: loading it would run them."""
    from smoothcert.models.build import is_code

    found: list[str] = []
    _renamed(vars(spec), found.append)
    return [name for name in found if is_code(name)]


def _renamed(described: Any, change: Callable[[str], Any]) -> Any:
    """The same description with each name of a network in it changed."""
    if isinstance(described, list):
        return [_renamed(part, change) for part in described]
    if not isinstance(described, Mapping):
        return described
    found = {key: _renamed(part, change) for key, part in described.items()}
    if isinstance(name := described.get("architecture"), str):
        found["architecture"] = change(name)
    return found


def hashes_of(spec: ModelSpec, run: Path) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """What `ModelSpec.code` and `ModelSpec.folders` are in a run folder."""
    found = {name: code for name in code_named(spec) if (code := find_code(name))}
    folders = {
        name: os.path.relpath(code.root, run) if code.root.anchor == run.anchor else str(code.root)
        for name, code in found.items()  # Windows has drives
    }
    return {name: code.hashes for name, code in found.items()}, folders


def with_code(spec: ModelSpec, run: Path, trusted: str) -> ModelSpec:
    """The description with the paths at which its code lies, as it was when the run was made; an error if it does not.

    What is `trusted` is taken from where these settings have it, and nowhere else.
    """
    places = {}
    for name in code_named(spec):
        module, _, attribute = name.rpartition(":")
        folder = (run / spec.folders.get(name, ".")).resolve()
        tried = [name]
        if name != trusted and module.endswith(".py"):
            tried += [f"{place / Path(module).name}:{attribute}" for place in (folder, run)]
        elif name != trusted and str(folder) not in sys.path:
            sys.path.append(str(folder))
        known = spec.code.get(name, {})
        found = [find_code(one) or Code(folder, {}) for one in tried]
        same = [one for one, code in zip(tried, found, strict=True) if code.hashes == known]
        if not same or not known:
            there = next((code for code in found if code.hashes), found[0])
            other = min([one for one, _ in there.hashes.items() ^ known.items()], default=name)
            raise ModelError(
                f"{there.root / other} is missing, or not the code that {run} was made with, and would be another "
                "network: put that back, there or beside model.json, or make a new run folder"
            )
        places[name] = same[0]
    return dataclasses.replace(spec, **_renamed(vars(spec), lambda name: places.get(name, name)))
