"""The host's side of fused_kernels.py: which rows a launch fills, and the tables of the noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.noise.exact import Place, Table, check_samples, key_of, table_of
from smoothcert.noise.fused_kernels import GROUPS, noisy_rows
from smoothcert.statistics.laws import Law

_BITS = range(6, 10)  # that a guide may have: more cost more than the steps that they save


class FusedNoise:
    """Writes noisy copies of 8-bit images into batches, on the device."""

    def __init__(self, law: Law, sigma: float, seed: int, device: torch.device) -> None:
        self.device = device
        # their bits as signed numbers: the kernel's arguments then have one type whatever the seed
        self._key = np.array(key_of(seed, law), dtype=np.uint32).view(np.int32).tolist()
        self._tables = _on_device(law, sigma, device)

    def words(self, requests: Sequence[tuple[Place, int]]) -> Tensor:
        """Counter words, [requests, 2], for the place and the end of the samples of each request."""
        for _, last in requests:
            check_samples(last)
        rows = [place for place, _ in requests]
        bits = np.array(rows, dtype=np.uint32).reshape(-1, 2).view(np.int32)
        return torch.from_numpy(bits).to(self.device)

    def fill(
        self, out: Tensor, images: Tensor, words: Tensor, request: Tensor, sample: Tensor
    ) -> None:
        """Row b of `out` [rows, C, H, W], of any strides, becomes that sample of that request's image.

        `images` [requests, C, H, W] uint8, contiguous; `request` and `sample` [rows] int32 (the bits of a uint32).
        """
        rows, _, height, width = out.shape
        values = images[0].numel()
        row_stride, channel, line, pixel = out.stride()
        tables = self._tables
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
            tables.low,
            tables.high,
            row_stride,
            *self._key,
            VALUES=values,
            HEIGHT=height,
            WIDTH=width,
            CHANNEL_STRIDE=channel,
            LINE_STRIDE=line,
            PIXEL_STRIDE=pixel,
            FLAT=out.is_contiguous() and values % 4 == 0,
            BITS=tables.bits,
            STEPS=tables.steps,
            SEARCH=tables.search,
            GROUPS=GROUPS,
        )


class DeviceTables(NamedTuple):
    """What the kernel reads; both lists have room to read past their end."""

    thresholds: Tensor
    upper: Tensor
    guide: Tensor
    bits: int  # of the guide
    steps: int  # of a search that begins there
    search: int  # steps of a search among all thresholds
    shift: int
    low: float  # the range of the sums
    high: float


@lru_cache(maxsize=8)
def _on_device(law: Law, sigma: float, device: torch.device) -> DeviceTables:
    table = table_of(law, sigma)
    for bits in _BITS:
        guide, steps = guide_of(table, bits)
        if steps == 1:
            break
    search = max(1, len(table.thresholds).bit_length())
    room = 2 ** max(search, steps)
    thresholds = np.append(table.thresholds, np.full(room, 2**63 - 1))
    upper = np.append(table.upper, np.full(room, 2**32 - 1, np.uint32)).view(np.int32)
    first, second, third = (
        torch.from_numpy(array).to(device) for array in (thresholds, upper, guide)
    )
    return DeviceTables(
        first, second, third, bits, steps, search, table.shift, table.low, table.high
    )


def guide_of(table: Table, bits: int) -> tuple[NDArray[np.int32], int]:
    """How many upper words come before each bucket of count_below(), for both ends; and the steps within one.

    Far out many thresholds share their upper word. The buckets there hold one word each, which one step finds tied.
    """
    far = table.upper >= 2**31
    near_end, far_end = _buckets(table.upper[~far], bits), _buckets(~table.upper[far], bits)[::-1]
    bucket = np.arange(32 << bits)
    before = (
        np.searchsorted(near_end, bucket),
        len(table.upper) - np.searchsorted(far_end, bucket, side="right"),
    )
    single = int(
        _buckets(np.array([2 << bits], np.uint32), bits)[0]
    )  # buckets below it hold one word
    widest = max(
        int(np.bincount(side[side >= single], minlength=1).max()) for side in (near_end, far_end)
    )
    return np.concatenate(before).astype(np.int32), max(1, widest.bit_length())


def _buckets(distance: NDArray[np.uint32], bits: int) -> NDArray[np.int64]:
    """Of distances to the nearer end, as the kernel finds them: they rise with the distance."""
    pattern = distance.astype(np.float32).view(np.int32).astype(np.int64)
    buckets: NDArray[np.int64] = np.maximum((pattern >> (23 - bits)) - (127 << bits) + 1, 0)
    return buckets
