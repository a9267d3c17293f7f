"""Integer noise of a law, as thresholds of a uniform integer.

Noise z of variance 1 and distribution function F, times 255 sigma and rounded, is
T = round(255 sigma z) with P(T <= t) = F((t + 1/2) / (255 sigma)). With u uniform on the integers
below 2^62 and thresholds c_t = 2^62 F((t + 1/2) / (255 sigma)), rounded to integers in 60-digit
arithmetic from the very float sigma,

    T = number of thresholds c_t <= u, minus M        (t from -M to M - 1)

has this law but for less than 2^-62 at each threshold. T is cut at +-M, where its sum with any
pixel is clipped anyway. So the law of a noisy image of d values is within tau = d (2M + 1) 2^-62
of the true one in total variation, and every probability that is estimated from such images is
within tau of the true one. Where u comes from is in exact.py.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache

from smoothcert.statistics.laws import Law

BITS = 62  # of int64's 63, so that a threshold of 2^BITS still fits
_DIGITS = 60
_HALF = Decimal("0.5")


def padding(sigma: float) -> int:
    """Sums are clipped to [-padding, padding + 1], in units of the image: beyond 6 sigma."""
    return math.ceil(6 * sigma)


def largest(sigma: float) -> int:
    """M: a pixel of 0..255 plus noise of M or more is clipped, whatever the pixel."""
    return 255 * (padding(sigma) + 1)


def tau_of(sigma: float, dimension: int) -> float:
    """Total variation distance of a noisy image from x + round(255 sigma z), at most."""
    return dimension * (2 * largest(sigma) + 1) * 2.0**-BITS


@lru_cache(maxsize=16)
def thresholds(law: Law, sigma: float) -> tuple[int, ...]:
    """c_t for t = -M, ..., M - 1. Laws are symmetric, so only F of positive numbers is needed."""
    with localcontext() as context:
        context.prec = _DIGITS
        scale = 255 * Decimal(sigma)  # exactly the float that was given
        upper = [law.distribution((t + _HALF) / scale) for t in range(largest(sigma))]
        both = [1 - p for p in reversed(upper)] + upper
        return tuple(int((p * 2**BITS).to_integral_value()) for p in both)
