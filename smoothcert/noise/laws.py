"""The laws of integer noise, as thresholds of a uniform integer.

Noise z of variance 1 and distribution function F, times 255 sigma and rounded, is T = round(255 sigma z) with
P(T <= t) = F((t + 1/2) / (255 sigma)). With u uniform on the integers below 2^62 and thresholds
c_t = 2^62 F((t + 1/2) / (255 sigma)), rounded to integers in 60-digit arithmetic from the very float sigma,

    T = number of thresholds c_t <= u, minus M        (t from -M to M - 1)

has this law but for less than 2^-62 at each threshold. T is cut at +-M, where its sum with any pixel is clipped anyway.
So the law of a noisy image of d values is within tau = d (2M + 1) 2^-62 of the true one in total variation, and every
probability that is estimated from such images is within tau of the true one. Where u comes from is in exact.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

from smoothcert.statistics.bounds import Law

BITS = 62  # of int64's 63, so that a threshold of 2^BITS still fits
_DIGITS = 60
_HALF = Decimal("0.5")
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803"
)
_SQRT2 = Decimal(
    "1.41421356237309504880168872420969807856967187537694807317667973799073247846210703"
)
_SQRT12 = Decimal(
    "3.46410161513775458705489268301174473388561050762076125611161395890386603381760007"
)


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
def thresholds(law: Law, sigma: float) -> tuple[int, ...]:
    """c_t for t = -M, ..., M - 1. All laws are symmetric, so only F of positive numbers is needed."""
    m, distribution = largest(sigma), _DISTRIBUTION[law]
    with localcontext() as context:
        context.prec = _DIGITS
        scale = 255 * Decimal(sigma)  # exactly the float that was given
        upper = [distribution((t + _HALF) / scale) for t in range(m)]
        both = [1 - p for p in reversed(upper)] + upper
        return tuple(int((p * 2**BITS).to_integral_value()) for p in both)


def normal(x: Decimal) -> Decimal:
    """F(x) of a Gaussian for x >= 0, to an absolute 1e-57 in a decimal context of 60 digits.

    1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + ...): all terms are positive, so nothing cancels.
    """
    if x > 17:
        return Decimal(1)  # up to 5e-65
    square, term, k = x * x, x * (-x * x / 2).exp() / (2 * _PI).sqrt(), 1
    total = _HALF
    smallest = Decimal(10) ** -_DIGITS
    while term > smallest or square > k:  # terms grow until k reaches x^2
        total += term
        k += 2
        term = term * square / k
    return min(total, Decimal(1))


def uniform(x: Decimal) -> Decimal:
    """On [-sqrt(3), sqrt(3)]."""
    return min(_HALF + x / _SQRT12, Decimal(1))


def laplace(x: Decimal) -> Decimal:
    """Of scale 1/sqrt(2)."""
    return 1 - (-x * _SQRT2).exp() / 2


_DISTRIBUTION: dict[Law, Callable[[Decimal], Decimal]] = {
    "gaussian": normal,
    "uniform": uniform,
    "laplace": laplace,
}
