"""Where certification noise comes from: one keyed stream for every (seed, image, stage).

The noise of sample j of an image is a function of (seed, the image and its index, stage, j), and for `float` of the
kind of device.
Batch size, order of inputs, shards, crashes and resumes cannot change it, and the selection and estimation stages
cannot share a sample, because all of these are part of the key or the counter.

`exact` adds round(255 sigma z) to the 8-bit image as integers, so what the network sees is a function of the integer
sum alone and no low-order bit can reveal the image. The integers do not depend on the device, and their law is known
(thresholds.py). `uniform` and `laplace` are the same with noise of these laws and of the same standard deviation; their
radii are in l1 norm. `float` adds sigma z in float32, as the literature does; it is kept for comparison, and is
not formally sound (the floats reachable from x depend on x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.config import NoiseMode
from smoothcert.config.choices import law_of
from smoothcert.devices.launching import launch_on, runs_triton
from smoothcert.errors import ConfigError, DataError
from smoothcert.noise.blocks import NormalBlocks
from smoothcert.noise.exact import ExactNoise, Stage, place_of, table_of
from smoothcert.noise.thresholds import tau_of
from smoothcert.statistics.laws import law_named

if TYPE_CHECKING:
    from smoothcert.noise.fused import FusedNoise
    from smoothcert.noise.reference import ReferenceNoise

FLOAT_STREAM = "philox-blocks-2"
"""Version of the layout in blocks.py, recorded in manifests: other numbers would come out of another layout.""" ""

INTEGER_STREAM = "philox4x32-words-2"
"""Version of the layout in exact.py."""


def fused_noise(mode: NoiseMode, device: torch.device) -> bool:
    """Whether the fused kernel draws this noise there."""
    return mode != "float" and runs_triton(device)


def stream(mode: NoiseMode) -> str:
    return FLOAT_STREAM if mode == "float" else INTEGER_STREAM


def tau(mode: NoiseMode, sigma: float, dimension: int) -> float:
    """The total variation distance, at most, of a noisy image from the law that its certificate assumes.

    It is known for noise that is added as integers; float noise is assumed to be as intended.
    """
    return 0.0 if mode == "float" else tau_of(sigma, dimension)


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
        law = law_named(law_of(mode))
        if image.device.type not in ("cpu", "cuda"):
            raise ConfigError(
                f"noise streams exist for cpu and cuda devices, found {image.device.type}"
            )
        self._sigma, self._dtype = sigma, dtype
        self.shape = tuple(image.shape)
        # a tensor, since CUDA divides by a Python number through its reciprocal, which rounds differently from the CPU
        self._levels = torch.tensor(255.0, device=image.device)
        self._base = unit_range(image) if mode == "float" else pixel_levels(image)
        levels = self._base if mode == "float" else self._base.to(torch.uint8)
        self._place = place_of(levels, index, stage)
        self._table = None if mode == "float" else table_of(law, sigma)
        self._fused: FusedNoise | None = None
        self._source: NormalBlocks | ExactNoise | ReferenceNoise | None = None
        if fused_noise(mode, image.device):
            from smoothcert.noise.fused import FusedNoise

            self._fused = FusedNoise(law, sigma, seed, image.device)
        elif mode == "float":
            self._source = NormalBlocks(image.numel(), image.device, seed=seed, place=self._place)
        elif image.device.type == "cpu":
            self._source = ExactNoise(law, sigma, image.numel(), seed=seed, place=self._place)
        else:
            from smoothcert.noise.reference import ReferenceNoise

            self._source = ReferenceNoise(
                law, sigma, image.numel(), image.device, seed=seed, place=self._place
            )

    def take(self, first: int, last: int) -> Tensor:
        if self._source is None:
            return self._from_kernel(first, last)
        # in place throughout: the noise is fresh memory, and this is the hot path
        noise = self._source.draw(first, last).view(-1, *self.shape)
        if self._table is None:
            return noise.mul_(self._sigma).add_(self._base).to(self._dtype)
        # integers below 2^24 are exact in float32, so this is integer addition; all that follows sees the sum alone
        return (
            noise.add_(self._base)
            .clamp_(self._table.low, self._table.high)
            .div_(self._levels)
            .to(self._dtype)
        )

    def _from_kernel(self, first: int, last: int) -> Tensor:
        assert self._fused is not None
        out = torch.empty((last - first, *self.shape), dtype=self._dtype, device=self._base.device)
        sample = torch.arange(first, last, device=out.device).int()
        image = self._base.to(torch.uint8)[None].contiguous()
        with launch_on(out.device):
            self._fused.fill(
                out,
                image,
                self._fused.words([(self._place, last)]),
                torch.zeros_like(sample),
                sample,
            )
        return out


def unit_range(image: Tensor) -> Tensor:
    """The image as float32 in [0,1], from uint8 or from floats."""
    if image.dtype != torch.uint8:
        return image.float()
    return image.float() / torch.tensor(255.0, device=image.device)


def pixel_levels(image: Tensor) -> Tensor:
    """The image as integers 0..255 (held in float32), from uint8 or from floats k/255 of at least float32's precision.

    A float32 is within a relative 2^-24 of k/255 if it was divided, and 2^-23 if it was multiplied by 1/255. Anything
    farther off is another image than the one that would be certified. Products with 255 are exact in float64.
    """
    if image.dtype == torch.uint8:
        return image.float()
    levels = image.double() * 255.0
    grid = levels.round()
    if bool(((levels - grid).abs() > grid * 2.0**-23).any()):
        raise DataError(
            "integer noise needs an 8-bit image (uint8, or floats k/255), found values between the 256 levels: "
            "quantise the image first, or use noise='float' (as the literature does; not formally sound)"
        )
    return grid.float()
