"""The weights of many convolutions at once, folded and mirrored: a dozen launches, not hundreds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from smoothcert.kernels.cifar_resnet.conv import arrangement
from smoothcert.kernels.cifar_resnet.frozen import weight_and_bias_places

Pair = tuple[nn.Conv2d, nn.BatchNorm2d]


class Weight(NamedTuple):
    """Of one convolution [outputs, inputs, height, width], or of several [convolutions, numbers], as kernels read them.

    `mirrored` is what convolves the gradient: taps mirrored, channels exchanged.
    """

    plain: Tensor
    mirrored: Tensor


class Weights:
    """Reads the parameters anew at every call.

    Where each number goes is worked out at the first call on a device, which must not be captured as a graph.
    """

    def __init__(self, groups: Sequence[Sequence[Pair]], ours: Collection[nn.Conv2d]) -> None:
        """Convolutions, each with the BatchNorm after it; groups have one, or all that follow each other in `ours`.

        Those are read by kernels of our own, and the others by PyTorch.
        """
        self._groups, self._ours = [[conv for conv, _ in group] for group in groups], ours
        self._convs = [conv for group in self._groups for conv in group]
        self._norms = [norm for group in groups for _, norm in group]
        self._tables: dict[tuple[str, torch.device], tuple[Tensor, list[torch.Size]]] = {}

    @torch.no_grad()
    def as_they_are(self, dtype: torch.dtype) -> Iterator[Weight]:
        """Of each group, in the order of conv.py."""
        return self._weights(self._flat().to(dtype), fused=False)

    @torch.no_grad()
    def folded(self, dtype: torch.dtype, fused: bool) -> Iterator[tuple[Weight, Tensor]]:
        """Of each group, with their BatchNorms in them, and the biases that they have by that, in float32.

        The order is that of frozen.py if `fused`, or that of conv.py.
        """
        mean, variance, gamma, beta = (
            torch.cat([getattr(norm, name) for norm in self._norms])
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        scale = gamma * (variance + self._norms[0].eps).rsqrt()
        (factors,) = self._taken(scale, "channels", self._channels)
        biases = self._taken(beta - mean * scale, f"biases {fused}", partial(self._bias_places, fused))
        return zip(self._weights((self._flat() * factors).to(dtype), fused), biases, strict=True)

    def _weights(self, flat: Tensor, fused: bool) -> Iterator[Weight]:
        plain, mirrored = (
            self._taken(flat, f"{name} {flat.dtype} {fused}", partial(self._places, flat.dtype, fused, name))
            for name in ("plain", "mirrored")
        )
        for pair in zip(plain, mirrored, strict=True):
            yield Weight(*(weight.permute(0, 3, 1, 2) if weight.ndim == 4 else weight for weight in pair))

    def _flat(self) -> Tensor:
        """A zero and all weights, those of each convolution in channels-last order, which is that of their memory."""
        zero = self._convs[0].weight.new_zeros(1)
        return torch.cat([zero, *(conv.weight.permute(0, 2, 3, 1).reshape(-1) for conv in self._convs)])

    def _channels(self) -> list[Tensor]:
        """Of each number of `_flat`, which of all output channels it belongs to; the zero to any of them."""
        each = [conv.weight[0].numel() for conv in self._convs for _ in range(conv.out_channels)]
        return [torch.arange(len(each)).repeat_interleave(torch.tensor([1 + each[0], *each[1:]]))]

    def _places(self, dtype: torch.dtype, fused: bool, name: str) -> list[Tensor]:
        """Of each group, which numbers of `_flat` are read one after the other."""
        counted = torch.arange(1, 1 + sum(conv.weight.numel() for conv in self._convs))
        each = iter(torch.split(counted, [conv.weight.numel() for conv in self._convs]))
        groups = []
        for group in self._groups:
            found = []
            for conv in group:
                outputs, inputs, *taps = conv.weight.shape
                places = next(each).view(outputs, *taps, inputs)
                if name == "mirrored":
                    places = places.flip(1, 2).transpose(0, 3)
                found.append(self._in_order(places, dtype, fused) if conv in self._ours else places)
            groups.append(torch.stack(found) if group[0] in self._ours else found[0])
        return groups

    def _in_order(self, places: Tensor, dtype: torch.dtype, fused: bool) -> Tensor:
        if not fused:
            return places.reshape(-1)[arrangement(len(places), dtype)]
        ordered, _ = weight_and_bias_places(len(places))
        return torch.cat([torch.zeros(1, dtype=torch.long), places.permute(0, 3, 1, 2).reshape(-1)])[ordered]

    def _bias_places(self, fused: bool) -> list[Tensor]:
        places = torch.split(
            torch.arange(sum(n.num_features for n in self._norms)), [n.num_features for n in self._norms]
        )
        each, groups = iter(places), []
        for group in self._groups:
            found = [next(each) for _ in group]
            if group[0] in self._ours and fused:
                _, ordered = weight_and_bias_places(group[0].out_channels)
                found = [place[ordered - 1] for place in found]
            groups.append(torch.stack(found) if group[0] in self._ours else found[0])
        return groups

    def _taken(self, flat: Tensor, name: str, made: Callable[[], list[Tensor]]) -> list[Tensor]:
        """The numbers of each group, shaped as the places that `made` makes."""
        if (name, flat.device) not in self._tables:
            places = made()
            joined = torch.cat([place.reshape(-1) for place in places]).to(flat.device)
            self._tables[name, flat.device] = joined, [place.shape for place in places]
        joined, shapes = self._tables[name, flat.device]
        parts = torch.split(flat[joined], [shape.numel() for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
