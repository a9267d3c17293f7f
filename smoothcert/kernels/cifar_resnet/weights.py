"""The weights of many convolutions at once, folded and mirrored: a dozen launches, not hundreds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

Arrangement = Callable[
    [int, torch.dtype], Tensor
]  # of channels and type: see `arrangement` in conv.py


class Weight(NamedTuple):
    """Of a convolution: [outputs, inputs, height, width], or arranged as kernels read them."""

    plain: Tensor
    mirrored: Tensor  # what convolves the gradient: taps mirrored, channels exchanged


class Weights:
    """Reads the parameters anew at every call.

    Where each number goes is worked out at the first call on a device, which must not be captured as a graph.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[nn.Conv2d, nn.BatchNorm2d]],
        ours: Collection[nn.Conv2d],
        arrangement: Arrangement,
    ) -> None:
        """`pairs` are convolutions, each with the BatchNorm after it; `ours` are those whose weights are arranged."""
        self._arrangement = arrangement
        self._convs, self._norms = [conv for conv, _ in pairs], [norm for _, norm in pairs]
        self._sizes, self._ours = [conv.weight.numel() for conv in self._convs], ours
        self._tables: dict[tuple[str, torch.device, torch.dtype], Tensor] = {}

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
        flat = self._flat() * scale[self._table("channels", self._channels, scale)]
        return zip(self._weights(flat.to(dtype)), biases, strict=True)

    def _weights(self, flat: Tensor) -> Iterator[Weight]:
        plain = flat[self._table("plain", partial(self._places, flat.dtype, mirrored=False), flat)]
        mirrored = flat[
            self._table("mirrored", partial(self._places, flat.dtype, mirrored=True), flat)
        ]
        for conv, *both in zip(
            self._convs, *(torch.split(t, self._sizes) for t in (plain, mirrored)), strict=True
        ):
            outputs, inputs, *taps = conv.weight.shape
            if conv in self._ours:
                yield Weight(*both)
            else:
                yield Weight(
                    _shaped(both[0], outputs, inputs, *taps),
                    _shaped(both[1], inputs, outputs, *taps),
                )

    def _flat(self) -> Tensor:
        """All weights in one, those of each convolution in channels-last order, which is that of their memory."""
        return torch.cat([conv.weight.permute(0, 2, 3, 1).reshape(-1) for conv in self._convs])

    def _channels(self) -> Tensor:
        """Of each weight, which of all output channels it belongs to."""
        each = [conv.weight[0].numel() for conv in self._convs for _ in range(conv.out_channels)]
        return torch.arange(len(each)).repeat_interleave(torch.tensor(each))

    def _places(self, dtype: torch.dtype, mirrored: bool) -> Tensor:
        """For each weight in the order in which it is read, mirrored or not, which of all weights it is."""
        places = []
        for conv, place in zip(
            self._convs, torch.split(torch.arange(sum(self._sizes)), self._sizes), strict=True
        ):
            shaped = _shaped(place, *conv.weight.shape)
            if mirrored:
                shaped = shaped.flip(2, 3).transpose(0, 1)
            flat = shaped.permute(0, 2, 3, 1).reshape(-1)
            places.append(
                flat[self._arrangement(conv.in_channels, dtype)] if conv in self._ours else flat
            )
        return torch.cat(places)

    def _table(self, name: str, made: Callable[[], Tensor], like: Tensor) -> Tensor:
        key = name, like.device, like.dtype
        if key not in self._tables:
            self._tables[key] = made().to(like.device)
        return self._tables[key]


def _shaped(flat: Tensor, outputs: int, inputs: int, height: int, width: int) -> Tensor:
    """[outputs, inputs, height, width] in channels-last memory."""
    return flat.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
