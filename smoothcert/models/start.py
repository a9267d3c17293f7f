"""Fine-tuning: a new network that starts with another one's weights."""

from __future__ import annotations

from torch import nn

from smoothcert.errors import ModelError
from smoothcert.models.weights import load_state


def start_from(model: nn.Module, source: nn.Module, classes: int, source_classes: int, where: str) -> None:
    """Copy all weights of `source` into `model`; where the numbers of classes differ, its last layer stays as it is.

    The last layer is what has one row per class in both networks and otherwise the same shape.
    """
    own, state = model.state_dict(), source.state_dict()
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
