"""The host's side of fused_kernels.py: which rows a launch fills, and the tables of exact noise."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from smoothcert.errors import ConfigError
from smoothcert.keys import derive
from smoothcert.noise import exact as exact_noise
from smoothcert.noise.fused_kernels import GROUPS, noisy_rows
from smoothcert.noise.streams import IntegerNoise, Stage


class FusedNoise:
    """Writes noisy copies of 8-bit images into batches, on the device."""

    def __init__(self, sigma: float, mode: IntegerNoise, seed: int, device: torch.device) -> None:
        self.sigma, self.mode, self.device = sigma, mode, device
        self._key = derive(seed, f"{mode} noise", bits=64)
        # quantised noise reads no table
        self._thresholds, self._guide, self._steps = _on_device(sigma if mode == "exact" else None, device)

    def words(self, requests: Sequence[tuple[int, Stage, int]]) -> Tensor:
        """Counter words and keys, [requests, 4], for (index, stage, end of the samples) of each request."""
        stages = get_args(Stage)
        for index, _, last in requests:
            if not (0 <= index < 2**32 and last <= 2**32):
                raise ConfigError(
                    f"an input's index and its samples are numbered below 2^32, found index {index} and {last} samples"
                )
        rows = [(index, stages.index(stage), self._key & 0xFFFFFFFF, self._key >> 32) for index, stage, _ in requests]
        bits = np.array(rows, dtype=np.uint32).reshape(-1, 4).view(np.int32)
        return torch.from_numpy(bits).to(self.device)

    def fill(self, out: Tensor, images: Tensor, words: Tensor, request: Tensor, sample: Tensor) -> None:
        """Row b of `out` [rows, C, H, W], of any strides, becomes that sample of that request's image.

        `images` [requests, C, H, W] uint8, contiguous; `request` and `sample` [rows] int32 (the bits of a uint32).
        """
        rows, _, height, width = out.shape
        values = images[0].numel()
        row_stride, channel, line, pixel = out.stride()
        per_group = 2 if self.mode == "exact" else 4
        groups = -(-values // per_group)
        grid = (-(-rows * groups // GROUPS),)
        noisy_rows[grid](
            out,
            images,
            words,
            request,
            sample,
            self._thresholds,
            self._guide,
            rows,
            255.0 * self.sigma,
            -255.0 * exact_noise.reach(self.sigma),
            255.0 * (exact_noise.reach(self.sigma) + 1),
            row_stride,
            VALUES=values,
            HEIGHT=height,
            WIDTH=width,
            CHANNEL_STRIDE=channel,
            LINE_STRIDE=line,
            PIXEL_STRIDE=pixel,
            FLAT=out.is_contiguous() and values % per_group == 0,
            EXACT=self.mode == "exact",
            STEPS=self._steps,
            GROUPS=GROUPS,
        )


@lru_cache(maxsize=8)
def _on_device(sigma: float | None, device: torch.device) -> tuple[Tensor, Tensor, int]:
    thresholds, guide, steps = ((0,), (0,), 0) if sigma is None else _tables(sigma)
    return torch.tensor(thresholds, device=device), torch.tensor(guide, dtype=torch.int32, device=device), steps


def _tables(sigma: float) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Thresholds (with room to read past their end), the guide of count_thresholds(), and its number of steps.

    Bucket 0 holds the distance 0; bucket 1 + 128 e + m the distances that float32 rounds into
    [2^e (1 + m/128), 2^e (1 + (m+1)/128)). Ends are taken wider than that, which costs nothing.
    """
    thresholds, top, half = exact_noise.thresholds(sigma), 2**exact_noise.BITS - 1, 2 ** (exact_noise.BITS - 1)
    lower: list[int] = []
    upper: list[int] = []
    widest = 1
    for bucket in range(64 * 128):
        exponent, m = divmod(max(bucket - 1, 0), 128)
        start, end = 2**exponent * (128 + m) // 128, 2**exponent * (129 + m) // 128 + 1
        # float32 rounds to the nearest of its 24-bit numbers; no distance is over half of all
        nearest, farthest = (0, 0) if bucket == 0 else (min(half, max(0, start - (start >> 23) - 1)), min(half, end))
        for side, ends in ((lower, (nearest, farthest)), (upper, (top - farthest, top - nearest))):
            first, last = (bisect_right(thresholds, u) for u in ends)
            side.append(first)
            widest = max(widest, last - first)
    steps = widest.bit_length()
    return (*thresholds, *[2**63 - 1] * 2**steps), (*lower, *upper), steps
