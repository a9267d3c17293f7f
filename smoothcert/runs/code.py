"""The code of networks that are none of ours, as model.json names it: where it lies, and that it is as it was."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.errors import ModelError
from smoothcert.imports import find_code

if TYPE_CHECKING:
    from smoothcert.runs.folder import ModelSpec


def code_named(spec: ModelSpec) -> list[str]:
    """The networks by dotted path that a description names, in parts of it too: loading it would run them."""
    from smoothcert.models.build import is_code

    def names(described: object) -> Iterator[str]:
        if isinstance(described, Mapping):
            if isinstance(name := described.get("architecture"), str):
                yield name
            for part in described.values():
                yield from names(part)
        elif isinstance(described, list | tuple):
            for part in described:
                yield from names(part)

    return [name for name in (spec.architecture, *names(spec.options)) if is_code(name)]


def hashes_of(spec: ModelSpec, run: Path) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """What `ModelSpec.code` and `ModelSpec.folders` are in a run folder."""
    found = {name: code for name in code_named(spec) if (code := find_code(name))}
    near = {
        name for name, code in found.items() if code.root.anchor == run.anchor
    }  # Windows has drives
    folders = {
        name: Path(os.path.relpath(code.root, run)).as_posix() if name in near else str(code.root)
        for name, code in found.items()
    }
    return {name: code.hashes for name, code in found.items()}, folders


def with_code(spec: ModelSpec, run: Path, trusted: str) -> ModelSpec:
    """The description with the paths at which its code lies now; refused unless it is what the run was made with.

    What is `trusted` is taken from where these settings have it, and nowhere else.
    """
    places = {}
    for name in code_named(spec):
        module, _, attribute = name.rpartition(":")
        folder, names = (run / spec.folders.get(name, ".")).resolve(), [name]
        if name != trusted and module.endswith(".py"):
            names += [f"{place / Path(module).name}:{attribute}" for place in (folder, run)]
        elif name != trusted and str(folder) not in sys.path:
            sys.path.append(str(folder))
        there = {one: code for one in names if (code := find_code(one))}
        if not there:
            raise ModelError(
                f"the code of {run} is not there; looked for {' and '.join(names)}: put it there, or beside model.json"
            )
        known = spec.code.get(name, {})
        same = [one for one, code in there.items() if code.hashes == known]
        if not same:
            code = next(iter(there.values()))
            changed = [one for one, _ in code.hashes.items() ^ known.items()]
            raise ModelError(
                f"{code.root / min(changed)} is not the code that {run} was made with, and would be another network: "
                "put it back as it was, or make a new run folder with the code of today"
            )
        places[name] = same[0]
    return dataclasses.replace(
        spec,
        architecture=places.get(spec.architecture, spec.architecture),
        options=_renamed(spec.options, places),
    )


def _renamed(described: Any, names: Mapping[str, str]) -> Any:
    """A description with other names for the architectures in it."""
    if isinstance(described, Mapping):
        return {
            key: names.get(part, part)
            if key == "architecture" and isinstance(part, str)
            else _renamed(part, names)
            for key, part in described.items()
        }
    return (
        [_renamed(part, names) for part in described] if isinstance(described, list) else described
    )
