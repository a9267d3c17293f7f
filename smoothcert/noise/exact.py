"""Integer noise from the words of a counter: the same on every device, at a known distance from the true law.

The uniform integer u of a coordinate, of which thresholds.py makes noise, is
u = w 2^30 + floor(w' / 4) of two 32-bit words. They are words of Philox4x32-10 under a key that is
a 64-bit hash of the seed and the law, at the counters

    w:   (group of four coordinates, sample, third, fourth)
    w':  (group of four coordinates, sample, third, fourth + 2^31)

and word k of each belongs to coordinate 4 group + k. The third and fourth word hold the stage and 61
bits of a hash of the image and its index: nobody can know the noise of an image before it is made, and make it for
the noise. Stages and samples have counters of their own under one key, so their words never coincide.

A threshold whose upper 32 bits differ from w is below or above u whatever w' is. So w alone decides almost always, and
w' is computed only where w is the upper bits of a threshold.

This file is the way of the CPU, in NumPy: 65,536 entries by the upper half of w hold the number of thresholds that lie
below, and the lower half of the one that may lie between. reference.py and fused_kernels.py draw the same integers.
"""

from __future__ import annotations

import operator
import sys
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.errors import ConfigError
from smoothcert.keys import derive
from smoothcert.noise.thresholds import BITS, largest, padding, thresholds
from smoothcert.statistics.laws import Law

Stage = Literal["selection", "estimation", "prediction"]
Words = NDArray[np.uint32]

SECOND = 2**31
"""What the fourth word of a counter has beside the place where w' comes from."""

_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW, _HALF_WORD = np.uint64(0xFFFFFFFF), np.uint64(32)
# where the halves of a product lie
_UPPER, _LOWER = (1, 0) if sys.byteorder == "little" else (0, 1)
_PIECE = 2**14  # counters that are worked on at once: their words and products fit a core's cache
_UNDECIDED = 0xFFFF


class Place(NamedTuple):
    third: int  # 32 bits of the hash
    fourth: (
        int  # the stage in two bits and 29 more of the hash; the highest bit is for second words
    )


def place_of(image: Tensor, index: int, stage: Stage) -> Place:
    """The place of an image [C, H, W]: of its 256 levels as uint8, or for float noise, of its floats."""
    index = operator.index(index)  # NumPy's ints too
    if not 0 <= index < 2**32:
        raise ConfigError(f"an input's index is a number below 2^32, found {index}")
    pixels = image.contiguous().cpu().numpy()
    about = repr((index, pixels.shape, str(pixels.dtype))).encode()
    found = int.from_bytes(blake2b(about + pixels.tobytes(), digest_size=8).digest(), "big")
    return Place(found & 0xFFFFFFFF, found >> 35 << 2 | get_args(Stage).index(stage))


def check_samples(last: int) -> None:
    if last > 2**32:
        raise ConfigError(f"the samples of an input are numbered below 2^32, found {last} samples")


def key_of(seed: int, law: Law) -> tuple[int, int]:
    key = derive(seed, f"{law.name} noise", bits=64)
    return key & 0xFFFFFFFF, key >> 32


class Table:
    """The thresholds of a law that are neither below nor above all u, and their number <= u as far as w decides it."""

    def __init__(self, law: Law, sigma: float) -> None:
        every = np.array(thresholds(law, sigma))
        self.thresholds = every[(every > 0) & (every < 2**BITS)]
        self.shift = largest(sigma) - int(
            (every <= 0).sum()
        )  # T is the number of `thresholds` <= u, minus this
        # the range of the integer sum: clipping is part of the network, wide enough to be met only beyond 6 sigma
        reach = padding(sigma)
        self.low, self.high = -255.0 * reach, 255.0 * (reach + 1)
        self.upper = (self.thresholds >> 30).astype(np.uint32)
        self.following = np.append(
            self.upper, np.uint32(2**32 - 1)
        )  # the first that is not below, or the largest word
        self.entries = self._entries() if len(self.thresholds) < _UNDECIDED else None

    def _entries(self) -> Words:
        """For each upper half a number which, with w added (mod 2^32), has T + shift in its upper half.

        Adding the lower half of w carries into the upper one beyond the threshold between. At the threshold the lower
        half of the sum is 0xFFFF; with several thresholds between, the upper half is.
        """
        start = np.arange(2**16 + 1) << 16
        below = np.searchsorted(self.upper, start)
        between = np.diff(below)
        first = self.following[below[:-1]].astype(np.int64) & 0xFFFF
        entry = (below[:-1] << 16) + np.where(between == 1, 0xFFFF - first, 0)
        entries: Words = (np.where(between > 1, _UNDECIDED << 16, entry) - start[:-1]).astype(
            np.uint32
        )
        return entries


@lru_cache(maxsize=16)
def table_of(law: Law, sigma: float) -> Table:
    return Table(law, sigma)


class ExactNoise:
    """The integer noise T of one place: ``draw(a, b)`` gives samples a to b-1, float32 [b-a, values]."""

    def __init__(self, law: Law, sigma: float, values: int, *, seed: int, place: Place) -> None:
        self._table, self._values = table_of(law, sigma), values
        self._place, self._key = place, key_of(seed, law)

    def draw(self, first: int, last: int) -> Tensor:
        check_samples(last)
        found = np.empty((last - first, self._values), np.float32)
        groups = np.arange(-(-self._values // 4), dtype=np.uint64)[None, :]
        samples = np.arange(first, last, dtype=np.uint64)[:, None]
        width = _share(groups.size, _PIECE)
        height = _share(len(samples), max(1, _PIECE // width))
        room = Room(height * width)
        for top in range(0, len(samples), height):
            for left in range(0, groups.size, width):
                group, sample = groups[:, left : left + width], samples[top : top + height]
                words = philox_words(group, sample, *self._place, self._key, room)
                counts = self._counts(words, group, sample, room)
                np.subtract(
                    counts, np.uint32(self._table.shift), out=counts
                )  # the bits of an int32
                there = found[top : top + height, 4 * left : 4 * (left + width)]
                there[...] = counts.view(np.int32)[:, : there.shape[1]]
        return torch.from_numpy(found)

    def _counts(
        self, words: Words, group: NDArray[np.uint64], sample: NDArray[np.uint64], room: Room
    ) -> Words:
        """How many thresholds are <= u, [samples, 4 groups], from the first words [samples, groups, 4]."""
        w, entries = words.reshape(-1), self._table.entries
        counts = room.counts[: w.size]
        if entries is None:
            unsure = np.arange(w.size)
        else:
            place = room.place[: w.size]
            np.right_shift(w, np.uint32(16), out=place)
            np.take(entries, place, out=counts, mode="wrap")  # no check: every place exists
            np.add(counts, w, out=counts)
            unsure = np.flatnonzero(counts.view(np.uint16) == _UNDECIDED) >> 1
            np.right_shift(counts, np.uint32(16), out=counts)
        if len(unsure):
            counts[unsure] = self._searched(w[unsure], unsure, group, sample)
        return counts.reshape(len(words), -1)

    def _searched(
        self, w: Words, at: NDArray[np.intp], group: NDArray[np.uint64], sample: NDArray[np.uint64]
    ) -> NDArray[np.intp]:
        """The same for single words by a search, and by their second words where the first do not decide."""
        table = self._table
        found = np.searchsorted(table.upper, w)
        tied = np.flatnonzero(table.following[found] == w)
        if len(tied):
            row, column = np.divmod(at[tied], 4 * group.shape[1])
            third, fourth = self._place
            counter = group[0, column // 4, None], sample[row], third, fourth + SECOND
            second = philox_words(*counter, self._key, Room(len(tied)))[
                np.arange(len(tied)), 0, column % 4
            ]
            u = w[tied].astype(np.int64) << 30 | second >> np.uint32(2)
            found[tied] = np.searchsorted(table.thresholds, u, side="right")
        return found


def _share(total: int, most: int) -> int:
    """The size of equal pieces of at least one, none larger than `most`."""
    return max(1, -(-total // max(1, -(-total // most))))


class Room:
    """Memory for `counters` counters, used for one piece after the other: fresh memory would cost more than the work.

    It belongs to one call, since threads draw at the same time.
    """

    def __init__(self, counters: int) -> None:
        self.factors = np.empty((2, counters), np.uint32)
        self.others = np.empty((2, counters), np.uint32)
        self.products = np.empty((2, 2, counters), np.uint64)
        self.words = np.empty((counters, 4), np.uint32)
        self.counts = np.empty(4 * counters, np.uint32)
        self.place = np.empty(4 * counters, np.intp)


def philox_words(
    group: NDArray[np.uint64],
    sample: NDArray[np.uint64],
    third: int,
    fourth: int,
    key: tuple[int, int],
    room: Room,
) -> Words:
    """Philox4x32-10 of counters whose first two words broadcast against each other: [rows, columns, 4].

    Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011). A round multiplies words 0 and
    2 to 64 bits, and their halves are read where the products lie.
    """
    shape = np.broadcast_shapes(group.shape, sample.shape)
    size = shape[0] * shape[1]
    keys = [
        [k + r * weyl & 0xFFFFFFFF for k, weyl in zip(key, _WEYL, strict=True)] for r in range(10)
    ]
    # two rounds in which every word depends on the group or on the sample alone, except one at their end
    c0, c1, c2, c3 = (
        group,
        sample,
        np.full((1, 1), third, np.uint64),
        np.full((1, 1), fourth, np.uint64),
    )
    for k0, k1 in np.array(keys[:2], np.uint64):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = b >> _HALF_WORD ^ c1 ^ k0, b & _LOW, a >> _HALF_WORD ^ c3 ^ k1, a & _LOW
    factors, others = room.factors[:, :size], room.others[:, :size]
    for place, word in zip((*factors, *others), (c0, c2, c1, c3), strict=True):
        place.reshape(shape)[...] = word
    for number, keys_now in enumerate(np.array(keys[2:], np.uint32)):
        products = room.products[
            number % 2, :, :size
        ]  # by turns, since `others` lie in those of the round before
        np.multiply(factors, _MULTIPLIERS, out=products)
        halves = products.view(np.uint32)[::-1]
        np.bitwise_xor(halves[:, _UPPER::2], others, out=factors)
        np.bitwise_xor(factors, keys_now[:, None], out=factors)
        others = halves[:, _LOWER::2]
    words = room.words[:size]
    for column, word in enumerate((factors[0], others[0], factors[1], others[1])):
        words[:, column] = word
    return words.reshape(*shape, 4)
