"""Fine-tuning: a new network that starts with another one's weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from smoothcert.errors import ModelError
from smoothcert.models.state_files import fitting_state, read_states
from smoothcert.models.weights import load_state


def start_from(
    model: nn.Module, source: nn.Module, classes: int, source_classes: int, where: str
) -> None:
    """Copy all weights of `source` into `model`; where the numbers of classes differ, its last layer stays as it is."""
    _copy(model, source.state_dict(), classes, source_classes, where)


def start_from_file(model: nn.Module, path: Path, classes: int) -> None:
    """Copy the weights of a file of anyone's into ``Sequential(normalisation, network)``, of so many classes.

    The file does not say its number of classes: it is that of the rows in which a layer differs from the network's.
    """
    network = model.get_submodule("1")
    state, own = fitting_state(network, read_states(path)), network.state_dict()
    others = {
        len(state[name])
        for name, value in own.items()
        if name in state and _has_other_rows(value, state[name])
    }
    _copy(network, state, classes, others.pop() if len(others) == 1 else classes, str(path))


def _has_other_rows(own: Tensor, other: Tensor) -> bool:
    return (
        own.ndim == other.ndim > 0 and len(own) != len(other) and own.shape[1:] == other.shape[1:]
    )


def _copy(
    model: nn.Module, state: Mapping[str, Tensor], classes: int, source_classes: int, where: str
) -> None:
    """The last layer is what has one row per class in both networks and otherwise the same shape."""
    own = model.state_dict()
    if classes != source_classes:
        head = [
            name
            for name, value in own.items()
            if name in state
            and value.ndim > 0
            and (value.shape[0], state[name].shape[:1]) == (classes, (source_classes,))
            and value.shape[1:] == state[name].shape[1:]
        ]
        if not head:
            raise ModelError(
                f"{where} has {source_classes} classes and the data {classes}, but no layer of the network has one "
                "row per class, so there is none to replace: give an architecture with a linear last layer"
            )
        state = {**state, **{name: own[name] for name in head}}
    load_state(model, state, where)
