"""Where certification noise comes from: one keyed stream for every (seed, input, stage).

The noise of sample j of an input is a function of (seed, input index, stage, j) and of the kind of device alone (CPU,
or a model of GPU). Batch size, order of inputs, shards, crashes and resumes cannot change it, and the selection and
estimation stages cannot share a sample, because all three are part of the key. Samples are drawn in blocks of fixed
size:

* CPU: Philox4x64-10 (NumPy), key = 128-bit hash of (seed, index), counter words 2 and 3 = (block, stage).
* CUDA: PyTorch's Philox4x32-10, seed = 63-bit hash of (seed, index, stage, block), offset 0.
* CUDA, `quantised` and `exact`, with Triton: Philox4x32-10 counters, no blocks (fused_kernels.py).

`quantised` adds round(255 sigma z) to the 8-bit image as integers, so what the network sees is a function of the
integer sum alone and no low-order bit can reveal the image. `exact` does the same with integers from a table
(exact.py), which do not even depend on the device and whose law is known. `uniform` and `laplace` are `quantised`
with noise of these laws, of the same standard deviation; their radii are in l1 norm. `float` adds sigma z in float32,
as the literature does; it is kept for comparison, and is not formally sound (the floats reachable from x depend on x).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.config import NoiseMode, check_choice
from smoothcert.devices.launching import launch_on, runs_triton
from smoothcert.errors import ConfigError, DataError
from smoothcert.keys import derive
from smoothcert.noise import exact as exact_noise
from smoothcert.noise.exact import ExactNoise
from smoothcert.statistics.bounds import Law

if TYPE_CHECKING:
    from smoothcert.noise.fused import FusedNoise

IntegerNoise = Literal["quantised", "exact"]  # Gaussian, and added as integers
Stage = Literal["selection", "estimation", "prediction"]

STREAM = "philox-blocks-1"
"""Version of the layout above, recorded in manifests: other numbers would come out of another layout."""

EXACT_STREAM = "philox4x32-counters-1"
"""Version of the layout in exact.py."""

FUSED_STREAM = "philox4x32-box-muller-1"
"""Version of the layout of quantised noise in fused_kernels.py."""

_BLOCK_VALUES = {"cpu": 2**17, "cuda": 2**23}


def block_size(values: int, device: torch.device) -> int:
    """How many samples of `values` values are drawn at once."""
    return max(1, _BLOCK_VALUES[device.type] // values)


def law_of(mode: NoiseMode) -> Law:
    return mode if mode == "uniform" or mode == "laplace" else "gaussian"


def fused_noise(device: torch.device) -> bool:
    """Whether Gaussian integer noise comes from the fused kernel there."""
    return runs_triton(device)


def stream(mode: NoiseMode, device: torch.device) -> str:
    if mode == "exact":
        return EXACT_STREAM
    return FUSED_STREAM if mode == "quantised" and fused_noise(device) else STREAM


def total_variation(mode: NoiseMode, sigma: float, values: int) -> float:
    """The total variation distance, at most, of a noisy image from the law that its certificate assumes.

    It is known for `exact` noise only; the law of other noise is assumed to be as intended.
    """
    return exact_noise.distance(sigma, values) if mode == "exact" else 0.0


class NoisyCopies:
    """The noisy copies of one image for one stage, in order: ``take(a, b)`` gives copies a to b-1, [b-a, C, H, W]."""

    def __init__(
        self,
        image: Tensor,
        sigma: float,
        mode: NoiseMode,
        *,
        seed: int,
        index: int,
        stage: Stage,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_choice("noise mode", mode, NoiseMode)
        if image.device.type not in _BLOCK_VALUES:
            raise ConfigError(f"noise streams exist for cpu and cuda devices, found {image.device.type}")
        self._image, self._sigma, self._mode = image, sigma, mode
        self.shape, self._dtype = tuple(image.shape), dtype
        self._key = (seed, index, stage)
        self._block = block_size(image.numel(), image.device)
        # the range of the integer sum: clipping is part of the network, wide enough to be met only beyond 6 sigma
        reach = exact_noise.reach(sigma)
        self._low, self._high = -255.0 * reach, 255.0 * (reach + 1)
        # a tensor, since CUDA divides by a Python number through its reciprocal, which rounds differently from the CPU
        self._levels = torch.tensor(255.0, device=image.device)
        self._drawn: tuple[int, Tensor] | None = None  # the last block: batches need not end where blocks do
        self._base = unit_range(image) if mode == "float" else pixel_levels(image)
        self._exact: ExactNoise | None = None
        self._fused: FusedNoise | None = None
        if (mode == "quantised" or mode == "exact") and fused_noise(image.device):
            from smoothcert.noise.fused import FusedNoise

            self._fused = FusedNoise(sigma, mode, seed, image.device)
        elif mode == "exact":
            place = get_args(Stage).index(stage)
            self._exact = ExactNoise(sigma, image.numel(), image.device, seed=seed, index=index, stage=place)

    def take(self, first: int, last: int) -> Tensor:
        if self._fused is not None:
            return self._from_kernel(self._fused, first, last)
        # in place throughout: the noise is fresh memory, and this is the hot path
        if self._mode == "float":
            return self._standard(first, last).mul_(self._sigma).add_(self._base).to(self._dtype)
        if self._exact is not None:
            steps = self._exact.draw(first, last).view(-1, *self.shape)
        else:
            steps = self._standard(first, last).mul_(255.0 * self._sigma).round_()
        # integers below 2^24 are exact in float32, so this is integer addition; all that follows sees the sum alone
        return steps.add_(self._base).clamp_(self._low, self._high).div_(self._levels).to(self._dtype)

    def _from_kernel(self, fused: FusedNoise, first: int, last: int) -> Tensor:
        _, index, stage = self._key
        out = torch.empty((last - first, *self.shape), dtype=self._dtype, device=self._image.device)
        sample = torch.arange(first, last, device=out.device).int()
        image = self._base.to(torch.uint8)[None].contiguous()
        with launch_on(out.device):
            fused.fill(out, image, fused.words([(index, stage, last)]), torch.zeros_like(sample), sample)
        return out

    def _standard(self, first: int, last: int) -> Tensor:
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
        """Noise of variance 1 of one block, [block, C, H, W]."""
        seed, index, stage = self._key
        shape = (self._block, *self._image.shape)
        if self._image.device.type == "cpu":
            counter = [0, 0, block, get_args(Stage).index(stage)]
            philox = np.random.Philox(key=derive(seed, "certify", index, bits=128), counter=counter)
            return torch.from_numpy(_on_cpu(np.random.Generator(philox), shape, law_of(self._mode)))
        generator = torch.Generator(self._image.device).manual_seed(derive(seed, "certify", index, stage, block))
        return _on_cuda(generator, shape, law_of(self._mode))


# Of variance 1: uniform on [-sqrt(3), sqrt(3)]; Laplace as the difference of two exponentials, divided by sqrt(2).


def _on_cpu(generator: np.random.Generator, shape: tuple[int, ...], law: Law) -> NDArray[np.float32]:
    if law == "gaussian":
        return generator.standard_normal(shape, dtype=np.float32)
    if law == "uniform":
        return (generator.random(shape, dtype=np.float32) - np.float32(0.5)) * np.float32(math.sqrt(12))
    pair = generator.standard_exponential((2, *shape), dtype=np.float32)
    return np.asarray((pair[0] - pair[1]) * np.float32(math.sqrt(0.5)))


def _on_cuda(generator: torch.Generator, shape: tuple[int, ...], law: Law) -> Tensor:
    if law == "gaussian":
        return torch.randn(shape, generator=generator, device=generator.device)
    if law == "uniform":
        return (torch.rand(shape, generator=generator, device=generator.device) - 0.5) * math.sqrt(12)
    pair = torch.empty((2, *shape), device=generator.device).exponential_(generator=generator)
    return (pair[0] - pair[1]) * math.sqrt(0.5)


def unit_range(image: Tensor) -> Tensor:
    """The image as float32 in [0,1], from uint8 or from floats."""
    if image.dtype != torch.uint8:
        return image.float()
    return image.float() / torch.tensor(255.0, device=image.device)


def pixel_levels(image: Tensor) -> Tensor:
    """The image as integers 0..255 (held in float32), from uint8 or from floats k/255."""
    if image.dtype == torch.uint8:
        return image.float()
    levels = image.float() * 255.0
    grid = levels.round()
    if bool((levels - grid).abs().max() > 1e-3):
        raise DataError(
            "integer noise needs an 8-bit image (uint8, or floats k/255), found values between the 256 levels: "
            "quantise the image first, or use noise='float' (as the literature does; not formally sound)"
        )
    return grid
