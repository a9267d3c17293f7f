"""Weights as people store them: torch files and safetensors, in the usual wrappings, read without running code."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.models.weights import load_state

# keys of the state dict in a checkpoint
_WEIGHTS = "state_dict", "net", "model_state_dict", "model", "network", "weights"

# what wraps a network puts before the names of its tensors: Sequential after its normalisation, DataParallel,
# torch.compile, and modules of Lightning by the names that they give to their network
_PREFIXES = ("1.", "module.", "_orig_mod.", "model.", "net.", "network.")


def load_weights_file(network: nn.Module, path: Path) -> None:
    """Fill a network from a file of anyone's; all names and shapes must agree, once the wrappings are off."""
    load_fitting(network, read_states(path), path)


def read_states(path: Path) -> list[dict[str, Tensor]]:
    """The weights in a file of anyone's, by their names as they are and without what wraps a network."""
    if path.suffix == ".safetensors":
        try:
            state: Mapping[str, Any] = safetensors.torch.load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelError(
                f"{path} is missing, damaged or not a safetensors file: {error}"
            ) from error
    else:
        state = read_checkpoint(path)
        while key := wrapping(state):
            state = state[key]
    return without_prefixes(dict(state), path)


def load_fitting(network: nn.Module, states: Sequence[dict[str, Tensor]], path: str | Path) -> None:
    """Fill a network from the first of some namings of its weights that shares names with it."""
    load_state(network, fitting_state(network, states), str(path))


def fitting_state(network: nn.Module, states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    own = network.state_dict()
    state = next((state for state in states if state.keys() & own.keys()), states[-1])
    for name, value in own.items():
        # A file older than torch 0.4.1 does not have this counter, and evaluation never reads it.
        if name.endswith("num_batches_tracked"):
            state.setdefault(name, value)
    return state


def wrapping(checkpoint: Mapping[str, Any]) -> str | None:
    """The key under which a checkpoint has its weights; None if it is a state dict itself."""
    return next((key for key in _WEIGHTS if isinstance(checkpoint.get(key), dict)), None)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """``torch.load`` of tensors and plain values; numpy scalars too, which old files have as accuracies."""
    make_scalar = np.float64(0).__reduce__()[0]
    allowed: list[Any] = [
        *((make_scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
        np.dtype,
        *(type(np.dtype(code)) for code in "?bhilqBHILQefd"),
    ]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(allowed):
            warnings.simplefilter(
                "ignore"
            )  # torch's advice on odd pickles; what it cannot read fails anyway
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ModelError(f"no checkpoint at {path}: check the path") from error
    except (
        Exception
    ) as error:  # on a damaged file torch raises nearly anything: KeyError, struct.error, ...
        code = re.search(r"GLOBAL ([\w.]*\w)", str(error))
        if code:
            raise ModelError(
                f"{path} is refused, and nothing in it was run: expected tensors and plain values, found the "
                f"Python object {code[1]}, which could run code when loaded; if you trust the file, open it "
                "yourself and save its state dict alone"
            ) from error
        raise ModelError(
            f"{path} is damaged or not a torch checkpoint ({type(error).__name__}): download or copy it anew; of a "
            "TorchScript file, save the state_dict() alone"
        ) from error
    if not isinstance(checkpoint, dict):
        raise ModelError(
            f"{path}: expected a dict with a state_dict, found a {type(checkpoint).__name__}"
        )
    return checkpoint


def without_prefixes(state: dict[str, Any], path: str | Path) -> list[dict[str, Tensor]]:
    """The state dict as it is, then without one, two, ... prefixes that all its names share."""
    odd = [str(k) for k, v in state.items() if not (isinstance(k, str) and isinstance(v, Tensor))]
    if odd or not state:
        raise ModelError(
            f"{path}: expected a state dict of named tensors, found {', '.join(odd) or 'an empty one'}"
        )
    endless = [
        name
        for name, value in state.items()
        if value.is_floating_point() and not value.isfinite().all()
    ]
    if endless:
        raise ModelError(
            f"{path}: expected finite weights, found NaN or infinity in {', '.join(endless)}: the training diverged "
            "or the file is damaged; get another checkpoint"
        )
    states = [dict(state)]
    while prefix := next(
        (p for p in _PREFIXES if all(name.startswith(p) for name in states[-1])), None
    ):
        states.append({name.removeprefix(prefix): value for name, value in states[-1].items()})
    return states
