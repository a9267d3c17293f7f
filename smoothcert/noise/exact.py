"""Rounded Gaussian noise from integers alone: the same on every device, at a known distance from the true law.

T = round(255 sigma z) for a Gaussian z has P(T <= t) = Phi((t + 1/2) / (255 sigma)). With u uniform on the integers
below 2^62 and thresholds c_t = 2^62 Phi((t + 1/2) / (255 sigma)), rounded to integers in 60-digit arithmetic,

    T = number of thresholds c_t <= u, minus M        (t from -M to M - 1)

has this law but for less than 2^-62 at each threshold. T is cut at +-M, where its sum with any pixel is clipped anyway.
So the law of a noisy image of d values is within tau = d (2M + 1) 2^-62 of the true one in total variation, and every
probability that is estimated from such images is within tau of the true one.

Layout: the words of Philox4x32-10 at the counter (pair of coordinates, sample, input index, stage), under a key that is
a 64-bit hash of the seed. Words 0 and 1 make u of the pair's first coordinate, words 2 and 3 of its second:
u = word 0 * 2^30 + floor(word 1 / 4). Different inputs, stages and samples have different counters under one key, so
their words never coincide by construction.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import torch
from torch import Tensor

from smoothcert.errors import ConfigError
from smoothcert.keys import derive
from smoothcert.noise.philox import philox4x32

BITS = 62  # of int64's 63, so that a threshold of 2^BITS still fits
_DIGITS = 60
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")


def reach(sigma: float) -> int:
    """Sums are clipped to [-reach, reach + 1] in units of the image: met only beyond 6 sigma."""
    return math.ceil(6 * sigma)


def largest(sigma: float) -> int:
    """M: a pixel of 0..255 plus noise of M or more is clipped, whatever the pixel."""
    return 255 * (reach(sigma) + 1)


def distance(sigma: float, values: int) -> float:
    """tau: total variation distance of a noisy image of `values` values from x + round(255 sigma z), at most."""
    return values * (2 * largest(sigma) + 1) * 2.0**-BITS


@lru_cache(maxsize=16)
def thresholds(sigma: float) -> tuple[int, ...]:
    """c_t for t = -M, ..., M - 1. By symmetry, only Phi of positive numbers is needed."""
    m = largest(sigma)
    with localcontext() as context:
        context.prec = _DIGITS
        scale = 255 * Decimal(sigma)  # exactly the float that was given
        upper = [normal_cdf((t + Decimal("0.5")) / scale) for t in range(m)]
        both = [1 - p for p in reversed(upper)] + upper
        return tuple(int((p * 2**BITS).to_integral_value()) for p in both)


def normal_cdf(x: Decimal) -> Decimal:
    """Phi(x) for x >= 0, to an absolute 1e-57 in a decimal context of 60 digits.

    1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + ...): all terms are positive, so nothing cancels.
    """
    if x > 17:
        return Decimal(1)  # up to 5e-65
    square, term, k = x * x, x * (-x * x / 2).exp() / (2 * _PI).sqrt(), 1
    total = Decimal("0.5")
    smallest = Decimal(10) ** -_DIGITS
    while term > smallest or square > k:  # terms grow until k reaches x^2
        total += term
        k += 2
        term = term * square / k
    return min(total, Decimal(1))


class ExactNoise:
    """The integer noise T of one input and stage: ``draw(a, b)`` gives samples a to b-1, float32 [b-a, values]."""

    def __init__(self, sigma: float, values: int, device: torch.device, *, seed: int, index: int, stage: int) -> None:
        if not 0 <= index < 2**32:
            raise ConfigError(f"an input's index must lie between 0 and 2^32 - 1 for exact noise, found {index}")
        self._values, self._place = values, (index, stage)
        self._thresholds = torch.tensor(thresholds(sigma), dtype=torch.int64, device=device)
        key = derive(seed, "exact noise", bits=64)
        self._key = (key & 0xFFFFFFFF, key >> 32)

    def draw(self, first: int, last: int) -> Tensor:
        found = torch.searchsorted(self._thresholds, self.uniform(first, last), right=True, out_int32=True)
        return found.float().sub_(len(self._thresholds) // 2)

    def uniform(self, first: int, last: int) -> Tensor:
        """u, uniform on 0 ... 2^62 - 1: int64 [last-first, values]."""
        if last > 2**32:
            raise ConfigError(f"exact noise has 2^32 samples per input, found sample {last} asked for")
        device = self._thresholds.device
        pair = torch.arange((self._values + 1) // 2, device=device)[None, :]
        sample = torch.arange(first, last, device=device)[:, None]
        index, stage = (torch.full((1, 1), word, device=device) for word in self._place)
        words = philox4x32((pair, sample, index, stage), self._key)
        pairs = torch.stack([words[0] << 30 | words[1] >> 2, words[2] << 30 | words[3] >> 2], dim=2)
        return pairs.flatten(1)[:, : self._values].contiguous()
