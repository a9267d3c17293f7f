"""A run folder for a network that was trained elsewhere."""

from __future__ import annotations

import dataclasses
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from smoothcert.errors import StoreError
from smoothcert.runs.folder import ModelSpec, RunFolder
from smoothcert.runs.identity import require_same
from smoothcert.runs.locks import locked

if TYPE_CHECKING:
    from smoothcert.models.bring import Brought

_WEIGHTS = "weights.safetensors"  # alone in a folder, it is what a command left that was killed before model.json


def describe(
    brought: Brought, sigma: float, dataset: str, shape: tuple[int, ...], names: tuple[str, ...]
) -> ModelSpec:
    """model.json of a network from elsewhere; without names of its own, its classes have those of the data."""
    known = brought.class_names or (names if len(names) == brought.classes else ())
    return ModelSpec(
        brought.architecture,
        brought.classes,
        brought.normalisation,
        sigma,
        dataset,
        shape,
        known,
        options=json.loads(json.dumps(brought.options)),  # as it will be read again
        source=brought.source,
    )


def check_free(run: RunFolder) -> None:
    """Refuse, before anything is computed, a folder that holds something else than a network from elsewhere."""
    try:
        run.path.exists()
    except (OSError, ValueError) as error:  # too long a name, or a character that no name has
        raise StoreError(f"the folder to make cannot be one ({error}): choose another") from error
    if run.config_path.exists():
        raise StoreError(f"{run.path} is a training run: give a new folder")
    if run.path.exists() and not run.path.is_dir():
        raise StoreError(f"{run.path} is a file: give a new folder")
    if run.path.exists() and not run.finished:
        others = [
            entry
            for entry in run.path.iterdir()
            if not entry.name.startswith(".") and entry.name != _WEIGHTS
        ]
        if others:
            raise StoreError(
                f"{run.path} holds files but no model.json: give an empty or a new folder"
            )


def keep_model(run: RunFolder, brought: Brought, spec: ModelSpec) -> None:
    """Write the network into the folder, or find that it is there already; never replace another one."""
    from smoothcert.models.weights import same_weights

    if not run.finished:
        with locked(run.path / ".lock", None):  # two commands could mix weights and model.json
            check_free(run)
            if not run.finished:
                if (run.path / _WEIGHTS).exists() and not same_weights(
                    brought.model, run.path / _WEIGHTS
                ):
                    raise StoreError(
                        f"{run.path} holds other weights, and no model.json: give a new folder"
                    )
                run.save_model(brought.model, spec)
                return
    check_free(run)
    there, asked = run.spec(), run.with_hashes(brought.model, spec)
    require_same(
        *(_brief(described) for described in (there, asked)),
        holds=f"{run.path} belongs to another network",
        advice="choose another folder, or name the same network to resume",
    )


def _brief(spec: ModelSpec) -> dict[str, Any]:
    """With the hash of its options, which may be a whole configuration, in their place; code file by file."""
    options = sha256(json.dumps(spec.options, sort_keys=True).encode()).hexdigest()
    files = {f"code {name}": digest for code in spec.code.values() for name, digest in code.items()}
    return {**dataclasses.asdict(spec), "options": options, "code": "", **files}
