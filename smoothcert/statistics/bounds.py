"""Counts -> confidence bounds of probabilities. NumPy and SciPy only.

Every number that enters a claim is rounded towards the cautious side: SciPy's special functions
are accurate to a few units in the last place, and `CAUTION` (relative 9.1e-13) is far more than
that and far less than any printed digit. Their last bits depend on the CPU's instruction set, so
that stores compare counts, and never compare bounds but by an inequality.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

from smoothcert.errors import ConfigError

CAUTION = 2.0**-40

Array = NDArray[np.float64]


def check_alpha(alpha: float) -> float:
    if not isinstance(alpha, Real) or not 1e-100 <= alpha < 1.0:  # below, SciPy fails
        raise ConfigError(f"alpha is a failure probability in [1e-100, 1), found {alpha!r}")
    return alpha


def check_sigma(sigma: float) -> float:
    # beyond 1000, 8-bit sums would no longer be exact in float32
    if not isinstance(sigma, Real) or not 0 < sigma <= 1000:
        raise ConfigError(
            "sigma, the standard deviation of the noise, must be above 0 (to 1000), "
            f"found {sigma!r}"
        )
    return sigma


def smallest_n(alpha: float) -> int:
    """The fewest samples with which a unanimous vote certifies anything: alpha^(1/n) >= 1/2."""
    return math.ceil(math.log2(1.0 / check_alpha(alpha)))


def check_samples(n0: int, n: int, alpha: float) -> None:
    for name, count in (("n0", n0), ("n", n)):
        if not isinstance(count, Integral):
            raise ConfigError(f"{name} counts samples: expected a whole number, found {count!r}")
        if count > 2**32:
            raise ConfigError(f"{name}: an image has at most 2^32 samples, found {count}")
    if n0 < 1:
        raise ConfigError(f"n0, the number of selection samples, must be at least 1, found {n0}")
    least = smallest_n(alpha)
    if n < least:
        raise ConfigError(
            f"n = {n} samples cannot certify anything at alpha = {alpha:g}, not even if all "
            f"agree: use n >= {least} (the field's tables use 100000)"
        )


def lower_bound(count: ArrayLike, n: ArrayLike, alpha: float, tau: float = 0.0) -> Array:
    """One-sided Clopper-Pearson lower bound: Beta.ppf(alpha; k, n-k+1), 0 when k = 0.

    `tau` is the most by which the law of the samples may misstate the probability; the bound is
    lowered by it.
    """
    k, total = _counts(count, n)
    check_alpha(alpha)
    a, b = np.maximum(k, 1.0), total - k + 1.0
    p = betaincinv(a, b, alpha) * (1.0 - CAUTION)
    # checked against its function, P(Bin(n, p) >= k), and lowered where it is too high
    for less in (1e-9, 1e-6, 1e-3):
        high = betainc(a, b, p) > alpha
        if not high.any():
            break
        p = np.where(high, p * (1.0 - less), p)
    return np.where(k == 0, 0.0, np.maximum(p - tau, 0.0))


def upper_bound(count: ArrayLike, n: ArrayLike, alpha: float, tau: float = 0.0) -> Array:
    """1 - the lower bound of the complementary count, which keeps the rounding."""
    k, total = _counts(count, n)
    return 1.0 - lower_bound(total - k, total, alpha, tau)


def linf_radius(l2_radius: ArrayLike, values: int) -> Array:
    """The l-infinity radius in an l2 radius, for inputs of d values: r / sqrt(d), rounded down."""
    if values < 1:
        raise ConfigError(f"expected the number of values of an input, at least 1, found {values}")
    return np.asarray(np.asarray(l2_radius, float) * ((1.0 - CAUTION) / math.sqrt(values)))


def top_two_p_value(first: ArrayLike, second: ArrayLike) -> Array:
    """PREDICT's two-sided exact binomial test of n1 of n1+n2 at 1/2 (Hung and Fithian).

    At p = 1/2 the binomial is symmetric: the p-value is twice the tail P(X >= max(n1, n2)).
    """
    a, b = np.broadcast_arrays(np.asarray(first, float), np.asarray(second, float))
    high, low = np.maximum(a, b), np.minimum(a, b)
    tail = betainc(np.maximum(high, 1.0), low + 1.0, 0.5)
    return np.where(high == low, 1.0, np.minimum(1.0, 2.0 * tail * (1.0 + CAUTION)))


def _counts(count: ArrayLike, n: ArrayLike) -> tuple[Any, Any]:
    k, total = np.broadcast_arrays(np.asarray(count, float), np.asarray(n, float))
    if np.any(total < 1) or np.any(k < 0) or np.any(k > total):
        raise ConfigError(f"expected counts from 0 to n >= 1, found {count!r} of n {n!r}")
    return k, total
