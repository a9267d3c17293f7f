"""Standard normal floats, for `float` noise: drawn in blocks of fixed size, each from a generator of its own.

* CPU: Philox4x64-10 (NumPy), key = 128-bit hash of (seed, place), counter word 2 = block.
* CUDA: PyTorch's Philox4x32-10, seed = 63-bit hash of (seed, place, block), offset 0.

The numbers depend on the kind of device: the CPU, or a model of GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from smoothcert.keys import derive
from smoothcert.noise.exact import Place

_BLOCK_VALUES = {"cpu": 2**17, "cuda": 2**23}


def block_size(values: int, device: torch.device) -> int:
    """How many samples of `values` values are drawn at once."""
    return max(1, _BLOCK_VALUES[device.type] // values)


class NormalBlocks:
    """The numbers of one place: ``draw(a, b)`` gives those of samples a to b-1, float32 [b-a, values]."""

    def __init__(self, values: int, device: torch.device, *, seed: int, place: Place) -> None:
        self._values, self._device, self._seed, self._place = values, device, seed, place
        self._block = block_size(values, device)
        self._drawn: tuple[int, Tensor] | None = (
            None  # the last block: batches need not end where blocks do
        )

    def draw(self, first: int, last: int) -> Tensor:
        return torch.cat(list(self._pieces(first, last)))

    def _pieces(self, first: int, last: int) -> Iterator[Tensor]:
        while first < last:
            block, offset = divmod(first, self._block)
            count = min(last - first, self._block - offset)
            drawn = self._drawn  # read once: threads may take samples at the same time
            if drawn is None or drawn[0] != block:
                self._drawn = drawn = (block, self._draw(block))
            yield drawn[1][offset : offset + count]
            first += count

    def _draw(self, block: int) -> Tensor:
        purpose = (self._seed, "certify", *self._place)
        shape = (self._block, self._values)
        if self._device.type == "cpu":
            philox = np.random.Philox(key=derive(*purpose, bits=128), counter=[0, 0, block, 0])
            return torch.from_numpy(
                np.random.Generator(philox).standard_normal(shape, dtype=np.float32)
            )
        generator = torch.Generator(self._device).manual_seed(derive(*purpose, block))
        return torch.randn(shape, generator=generator, device=self._device)
