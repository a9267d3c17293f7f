"""Weights on disk (safetensors, which cannot run code when opened) and their fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.files import atomic_write

_SHOWN = 8  # names in an error


def save_weights(model: nn.Module, path: str | Path) -> None:
    """Write the state dict; at every moment the file at `path` is the old one or the new one, whole."""
    with atomic_write(Path(path)) as file:
        file.write(safetensors.torch.save(_host_tensors(model)))


def same_weights(model: nn.Module, path: Path) -> bool:
    """Whether a file is what `save_weights` would write."""
    return path.read_bytes() == safetensors.torch.save(_host_tensors(model))


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Fill `model` from a file of `save_weights`; all names and shapes must agree."""
    try:
        state = safetensors.torch.load_file(path)
    except FileNotFoundError as error:
        raise ModelError(
            f"no weights at {path}: train the model first, or check the path"
        ) from error
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"the weights {path} are damaged or not a safetensors file ({error}): copy the file anew or train again"
        ) from error
    load_state(model, state, str(path))


def load_state(model: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """``load_state_dict``, but all or nothing, and the error names entries that do not fit."""
    own = model.state_dict()
    misfits = [
        f"{name} (found {_form(state[name])}, expected {_form(own[name])})"
        for name in own
        if name in state
        and (
            state[name].shape != own[name].shape
            or state[name].is_floating_point() != own[name].is_floating_point()
        )
    ]
    faults = {
        "missing": [name for name in own if name not in state],
        "unexpected": [name for name in state if name not in own],
        "of another form": misfits,
    }
    named = "; ".join(f"{fault}: {_some(names)}" for fault, names in faults.items() if names)
    if named:
        raise ModelError(
            f"{source} does not fit the model: {named}. "
            "Build the model with the architecture and the number of classes of the weights"
        )
    model.load_state_dict(state)


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    )


def weights_hash(model: nn.Module) -> str:
    """SHA-256 over (name, dtype, shape, bytes) of the state dict by name: the same on every device.

    The normalisation is not in the state dict: a record of what was certified needs its name beside the hash.
    """
    digest = sha256()
    for name, tensor in sorted(_host_tensors(model).items()):
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def weights_name(model: nn.Module) -> str:
    """The hash of the weights; empty for a network with state that is not in tensors."""
    try:
        return weights_hash(model)
    except ModelError:
        return ""


def _host_tensors(model: nn.Module) -> dict[str, Tensor]:
    state = model.state_dict()
    odd = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if odd:
        raise ModelError(
            f"only tensors can be stored, but the state dict also holds {', '.join(odd)}"
        )
    # Copies, since safetensors refuses tensors that share memory (tied weights).
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in state.items()
    }


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
