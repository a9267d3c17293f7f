"""The weights of many convolutions at once, folded and mirrored: a dozen launches, not hundreds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Weight(NamedTuple):
    plain: Tensor
    mirrored: Tensor  # what convolves the gradient: taps mirrored, channels exchanged


class Weights:
    """Reads the parameters anew at every call.

    Where each number goes is worked out at the first call on a device, which must not be captured as a graph.
    """

    def __init__(self, pairs: Sequence[tuple[nn.Conv2d, nn.BatchNorm2d]]) -> None:
        """`pairs` are convolutions, each with the BatchNorm that follows it."""
        self._convs, self._norms = [conv for conv, _ in pairs], [norm for _, norm in pairs]
        self._sizes = [conv.weight.numel() for conv in self._convs]
        self._tables: dict[tuple[str, torch.device], Tensor] = {}

    @torch.no_grad()
    def as_they_are(self, dtype: torch.dtype) -> Iterator[Weight]:
        return self._weights(self._flat().to(dtype))

    @torch.no_grad()
    def folded(self, dtype: torch.dtype) -> Iterator[tuple[Weight, Tensor]]:
        """Each with its BatchNorm in it, and the bias that it has by that, in float32."""
        mean, variance, gamma, beta = (
            torch.cat([getattr(norm, name) for norm in self._norms])
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        scale = gamma * (variance + self._norms[0].eps).rsqrt()
        biases = torch.split(beta - mean * scale, [norm.num_features for norm in self._norms])
        flat = self._flat() * scale[self._table("channels", self._channels, scale.device)]
        return zip(self._weights(flat.to(dtype)), biases, strict=True)

    def _weights(self, flat: Tensor) -> Iterator[Weight]:
        mirrored = flat[self._table("mirror", self._mirror, flat.device)]
        for conv, one, two in zip(self._convs, *(torch.split(t, self._sizes) for t in (flat, mirrored)), strict=True):
            outputs, inputs, *taps = conv.weight.shape
            yield Weight(_shaped(one, outputs, inputs, *taps), _shaped(two, inputs, outputs, *taps))

    def _flat(self) -> Tensor:
        """All weights in one, those of each convolution in channels-last order, which is that of their memory."""
        return torch.cat([conv.weight.permute(0, 2, 3, 1).reshape(-1) for conv in self._convs])

    def _channels(self) -> Tensor:
        """Of each weight, which of all output channels it belongs to."""
        each = [conv.weight[0].numel() for conv in self._convs for _ in range(conv.out_channels)]
        return torch.arange(len(each)).repeat_interleave(torch.tensor(each))

    def _mirror(self) -> Tensor:
        """For each mirrored weight, which of all weights it is."""
        places = torch.split(torch.arange(sum(self._sizes)), self._sizes)
        shaped = [_shaped(place, *conv.weight.shape) for place, conv in zip(places, self._convs, strict=True)]
        return torch.cat([place.flip(2, 3).permute(1, 2, 3, 0).reshape(-1) for place in shaped])

    def _table(self, name: str, made: Callable[[], Tensor], device: torch.device) -> Tensor:
        if (name, device) not in self._tables:
            self._tables[name, device] = made().to(device)
        return self._tables[name, device]


def _shaped(flat: Tensor, outputs: int, inputs: int, height: int, width: int) -> Tensor:
    """[outputs, inputs, height, width] in channels-last memory."""
    return flat.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
