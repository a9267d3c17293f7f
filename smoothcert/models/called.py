"""Any function on batches as a network."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from smoothcert.errors import ModelError


class Called(nn.Module):
    """A function from a batch of images to logits. Its weights, if it has any, are its own affair."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)

    def extra_repr(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{getattr(self.function, '__module__', '')}.{name}"


def as_module(model: object) -> nn.Module:
    """The network itself, or one that calls it."""
    if isinstance(model, nn.Module):
        return model
    if not callable(model) or isinstance(model, type):
        what = (
            f"the class {model.__name__} itself, not an instance"
            if isinstance(model, type)
            else type(model).__name__
        )
        raise ModelError(
            f"expected the model to be a torch.nn.Module, or a function from a batch of images to logits, found {what}"
        )
    return Called(model)
