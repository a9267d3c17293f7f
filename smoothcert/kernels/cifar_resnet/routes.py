"""Ways of gradients: those of many parameters of one shape as one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Layer = tuple[nn.Conv2d, nn.BatchNorm2d]


class Routes:
    """To the parameters of layers alike, for all passes of a network until gradients go back.

    A step of CAT-RS has two forward passes, whose gradients are added up: by these, in two kernels for all layers
    together and not in three for each of them.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self._open: tuple[object, Tensor, Tensor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}  # a copy of a network, or a stored one, begins anew

    def towards(self) -> tuple[Tensor, Tensor]:
        """What stands for the weights of all convolutions, and for beta and gamma of the norms in turn.

        They have no values, only gradients: [layers, ...] and [2 * layers, channels].
        """
        weights = [conv.weight for conv, _ in self._layers]
        norms = [parameter for _, norm in self._layers for parameter in (norm.bias, norm.weight)]
        device = weights[0].device
        # gradients go back on that one
        stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        # a pass whose gradients never went back may have left ways to what the parameters were then
        key = (
            stream,
            torch.is_grad_enabled(),
            [(id(p), p.requires_grad) for p in (*weights, *norms)],
        )
        if self._open is None or self._open[0] != key:
            self._open = None
            self._open = key, _gathered(weights, self._close), _gathered(norms, self._close)
        return self._open[1:]

    def _close(self) -> None:
        self._open = None


def _gathered(parameters: Sequence[Tensor], used: Callable[[], None]) -> Tensor:
    found: Tensor = Gathered.apply(used, *parameters)  # type: ignore[no-untyped-call]
    return found


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, used: Callable[[], None], *parameters: Tensor) -> Tensor:
        ctx.used = used
        return parameters[0].new_empty(()).expand(len(parameters), *parameters[0].shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        ctx.used()
        return None, *gradient.unbind()
