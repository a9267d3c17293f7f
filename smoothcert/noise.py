"""Where certification noise comes from: one keyed stream for every (seed, input, stage).

The noise of sample j of an input is a function of (seed, input index, stage, j) and of the device type alone. Batch
size, order of inputs, shards, crashes and resumes cannot change it, and the selection and estimation stages cannot
share a sample, because all three are part of the key. Samples are drawn in blocks of fixed size:

* CPU: Philox4x64-10 (NumPy), key = 128-bit hash of (seed, index), counter words 2 and 3 = (block, stage).
* CUDA: PyTorch's Philox4x32-10, seed = 63-bit hash of (seed, index, stage, block), offset 0.

`quantised` adds round(255 sigma z) to the 8-bit image as integers, so what the network sees is a function of the
integer sum alone and no low-order bit can betray the image. `float` adds sigma z in float32, as the literature does;
it is kept for comparison, and is not formally sound (the floats reachable from x depend on x).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from smoothcert.errors import ConfigError, DataError, unknown_name
from smoothcert.seeds import derive

NoiseMode = Literal["quantised", "float"]
Stage = Literal["selection", "estimation", "prediction"]

STREAM = "philox-blocks-1"
"""Version of the layout above, recorded in manifests: other numbers would come out of another layout."""

_BLOCK_VALUES = {"cpu": 2**17, "cuda": 2**23}


def check_mode(mode: str) -> None:
    if mode not in get_args(NoiseMode):
        raise unknown_name("noise mode", mode, get_args(NoiseMode))


class NoisyCopies:
    """The noisy copies of one image for one stage, in order: ``take(a, b)`` gives copies a to b-1, [b-a, C, H, W]."""

    def __init__(self, image: Tensor, sigma: float, mode: NoiseMode, *, seed: int, index: int, stage: Stage) -> None:
        check_mode(mode)
        if image.device.type not in _BLOCK_VALUES:
            raise ConfigError(f"noise streams exist for cpu and cuda devices, found {image.device.type}")
        self._image, self._sigma, self._mode = image, sigma, mode
        self._key = (seed, index, stage)
        self._block = max(1, _BLOCK_VALUES[image.device.type] // image.numel())
        # the range of the integer sum: clipping is part of the network, wide enough to be met only beyond 6 sigma
        reach = math.ceil(6 * sigma)
        self._low, self._high = -255.0 * reach, 255.0 * (reach + 1)
        # a tensor, since CUDA divides by a Python number through its reciprocal, which rounds otherwise than the CPU
        self._levels = torch.tensor(255.0, device=image.device)
        self._drawn: tuple[int, Tensor] | None = None  # the last block: batches need not end where blocks do
        self._base = eight_bit(image) if mode == "quantised" else unit_range(image)

    def take(self, first: int, last: int) -> Tensor:
        copies = torch.cat(list(self._pieces(first, last)))
        # in place throughout: `copies` is fresh memory, and this is the hot path
        if self._mode == "float":
            return copies.mul_(self._sigma).add_(self._base)
        # integers below 2^24 are exact in float32, so this is integer addition
        return (
            copies.mul_(255.0 * self._sigma).round_().add_(self._base).clamp_(self._low, self._high).div_(self._levels)
        )

    def _pieces(self, first: int, last: int) -> Iterator[Tensor]:
        while first < last:
            block, offset = divmod(first, self._block)
            count = min(last - first, self._block - offset)
            if self._drawn is None or self._drawn[0] != block:
                self._drawn = (block, self._draw(block))
            yield self._drawn[1][offset : offset + count]
            first += count

    def _draw(self, block: int) -> Tensor:
        """Standard normal noise of one block, [block, C, H, W]."""
        seed, index, stage = self._key
        shape = (self._block, *self._image.shape)
        if self._image.device.type == "cpu":
            counter = [0, 0, block, get_args(Stage).index(stage)]
            philox = np.random.Philox(key=derive(seed, "certify", index, bits=128), counter=counter)
            return torch.from_numpy(np.random.Generator(philox).standard_normal(shape, dtype=np.float32))
        generator = torch.Generator(self._image.device).manual_seed(derive(seed, "certify", index, stage, block))
        return torch.randn(shape, generator=generator, device=self._image.device)


def unit_range(image: Tensor) -> Tensor:
    """The image as float32 in [0,1], from uint8 or from floats."""
    if image.dtype != torch.uint8:
        return image.float()
    return image.float() / torch.tensor(255.0, device=image.device)


def eight_bit(image: Tensor) -> Tensor:
    """The image as integers 0..255 (held in float32), from uint8 or from floats k/255."""
    if image.dtype == torch.uint8:
        return image.float()
    levels = image.float() * 255.0
    grid = levels.round()
    if bool((levels - grid).abs().max() > 1e-3):
        raise DataError(
            "quantised noise needs an 8-bit image (uint8, or floats k/255), found values between the 256 levels: "
            "quantise the image first, or use noise='float' (as the literature does; not formally sound)"
        )
    return grid
