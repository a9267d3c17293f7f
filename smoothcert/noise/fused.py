"""The host's side of fused_kernels.py: which rows a launch fills, and the tables of the noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.noise import laws
from smoothcert.noise.exact import Stage, Table, check_counters, key_of, table_of
from smoothcert.noise.fused_kernels import GROUPS, noisy_rows
from smoothcert.statistics.bounds import Law

GUIDE_BITS = 7


class FusedNoise:
    """Writes noisy copies of 8-bit images into batches, on the device."""

    def __init__(self, law: Law, sigma: float, seed: int, device: torch.device) -> None:
        self.sigma, self.device = sigma, device
        self._key = key_of(seed, law)
        self._tables = _on_device(law, sigma, device)

    def words(self, requests: Sequence[tuple[int, Stage, int]]) -> Tensor:
        """Counter words and keys, [requests, 4], for (index, stage, end of the samples) of each request."""
        for index, _, last in requests:
            check_counters(index, last)
        rows = [(index, get_args(Stage).index(stage), *self._key) for index, stage, _ in requests]
        bits = np.array(rows, dtype=np.uint32).reshape(-1, 4).view(np.int32)
        return torch.from_numpy(bits).to(self.device)

    def fill(self, out: Tensor, images: Tensor, words: Tensor, request: Tensor, sample: Tensor) -> None:
        """Row b of `out` [rows, C, H, W], of any strides, becomes that sample of that request's image.

        `images` [requests, C, H, W] uint8, contiguous; `request` and `sample` [rows] int32 (the bits of a uint32).
        """
        rows, _, height, width = out.shape
        values = images[0].numel()
        row_stride, channel, line, pixel = out.stride()
        tables, reach = self._tables, laws.reach(self.sigma)
        grid = (-(-rows * -(-values // 4) // GROUPS),)
        noisy_rows[grid](
            out,
            images,
            words,
            request,
            sample,
            tables.thresholds,
            tables.upper,
            tables.guide,
            rows,
            float(tables.shift),
            -255.0 * reach,
            255.0 * (reach + 1),
            row_stride,
            VALUES=values,
            HEIGHT=height,
            WIDTH=width,
            CHANNEL_STRIDE=channel,
            LINE_STRIDE=line,
            PIXEL_STRIDE=pixel,
            FLAT=out.is_contiguous() and values % 4 == 0,
            BITS=GUIDE_BITS,
            STEPS=tables.steps,
            SEARCH=tables.search,
            GROUPS=GROUPS,
        )


class DeviceTables(NamedTuple):
    """What the kernel reads; both lists have room to read past their end."""

    thresholds: Tensor
    upper: Tensor
    guide: Tensor
    steps: int  # of a search that begins at the guide
    search: int  # steps of a search among all thresholds
    shift: int


@lru_cache(maxsize=8)
def _on_device(law: Law, sigma: float, device: torch.device) -> DeviceTables:
    table = table_of(law, sigma)
    guide, steps = guide_of(table)
    search = max(1, len(table.thresholds).bit_length())
    room = 2 ** max(search, steps)
    thresholds = np.append(table.thresholds, np.full(room, 2**63 - 1))
    upper = np.append(table.upper, np.full(room, 2**32 - 1, np.uint32)).view(np.int32)
    first, second, third = (torch.from_numpy(array).to(device) for array in (thresholds, upper, guide))
    return DeviceTables(first, second, third, steps, search, table.shift)


def guide_of(table: Table) -> tuple[NDArray[np.int32], int]:
    """How many upper words come before each bucket of count_below(), for both ends; and the steps within one."""
    far = table.upper >= 2**31
    near_end, far_end = _buckets(table.upper[~far]), _buckets(~table.upper[far])[::-1]
    bucket = np.arange(32 << GUIDE_BITS)
    before = np.searchsorted(near_end, bucket), len(table.upper) - np.searchsorted(far_end, bucket, side="right")
    widest = max(int(np.bincount(side, minlength=1).max()) for side in (near_end, far_end))
    return np.concatenate(before).astype(np.int32), widest.bit_length()


def _buckets(distance: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Of distances to the nearer end, as the kernel finds them: they rise with the distance."""
    bits = distance.astype(np.float32).view(np.int32).astype(np.int64)
    buckets: NDArray[np.int64] = np.maximum((bits >> (23 - GUIDE_BITS)) - (127 << GUIDE_BITS) + 1, 0)
    return buckets
