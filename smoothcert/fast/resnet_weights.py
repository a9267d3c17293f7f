"""The weights of all convolutions of a CIFAR ResNet at once, folded and mirrored: a dozen launches, not hundreds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Layer(NamedTuple):
    """A convolution with the BatchNorm after it in its weights."""

    weight: Tensor
    bias: Tensor
    mirrored: Tensor | None  # the weights that convolve its gradient: taps mirrored, channels exchanged


class Weights:
    """Reads the parameters anew at every call; where each number goes is worked out at the first.

    `pairs` are convolutions, each with its BatchNorm, in the order of use; those in `mirrored` are to be had so.
    """

    def __init__(self, pairs: Sequence[tuple[nn.Conv2d, nn.BatchNorm2d]], mirrored: Collection[nn.Conv2d]) -> None:
        self._convs, self._norms = [conv for conv, _ in pairs], [norm for _, norm in pairs]
        self._chosen = [conv in mirrored for conv in self._convs]
        self._sizes = [conv.weight.numel() for conv in self._convs]
        self._channel: Tensor | None = None  # of each weight, among all output channels
        self._places: Tensor | None = None  # of each mirrored weight, among all

    @torch.no_grad()
    def chosen(self, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
        """The weights of those in `mirrored`, as they are and mirrored."""
        flat = self._flat().to(dtype)
        pairs = zip(self._shaped(flat), self._mirrored(flat), strict=True)
        return iter([(weight, mirrored) for weight, mirrored in pairs if mirrored is not None])

    @torch.no_grad()
    def folded(self, dtype: torch.dtype) -> Iterator[Layer]:
        sizes = [norm.num_features for norm in self._norms]
        mean, variance, gamma, beta = (
            torch.cat([getattr(norm, name) for norm in self._norms])
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        scale = gamma * (variance + self._norms[0].eps).rsqrt()
        if self._channel is None:
            each = [conv.weight[0].numel() for conv, size in zip(self._convs, sizes, strict=True) for _ in range(size)]
            self._channel = torch.arange(len(each)).repeat_interleave(torch.tensor(each)).to(scale.device)
        flat = (self._flat() * scale[self._channel]).to(dtype)
        return map(Layer, self._shaped(flat), torch.split(beta - mean * scale, sizes), self._mirrored(flat))

    def _flat(self) -> Tensor:
        """All weights in one, those of each convolution in channels-last order, which is that of their memory."""
        return torch.cat([conv.weight.permute(0, 2, 3, 1).reshape(-1) for conv in self._convs])

    def _shaped(self, flat: Tensor) -> list[Tensor]:
        weights = torch.split(flat, self._sizes)
        return [_shaped(weight, *conv.weight.shape) for weight, conv in zip(weights, self._convs, strict=True)]

    def _mirrored(self, flat: Tensor) -> list[Tensor | None]:
        if not any(self._chosen):
            return [None] * len(self._chosen)
        if self._places is None:
            places = torch.split(torch.arange(len(flat)), self._sizes)
            self._places = torch.cat(
                [
                    _shaped(place, *conv.weight.shape).flip(2, 3).permute(1, 2, 3, 0).reshape(-1)
                    for place, conv, chosen in zip(places, self._convs, self._chosen, strict=True)
                    if chosen
                ]
            ).to(flat.device)
        sizes = [size for size, chosen in zip(self._sizes, self._chosen, strict=True) if chosen]
        found = iter(torch.split(flat[self._places], sizes))
        return [
            _shaped(next(found), *conv.weight.transpose(0, 1).shape) if chosen else None
            for conv, chosen in zip(self._convs, self._chosen, strict=True)
        ]


def _shaped(flat: Tensor, outputs: int, inputs: int, height: int, width: int) -> Tensor:
    """[outputs, inputs, height, width] in channels-last memory."""
    return flat.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
