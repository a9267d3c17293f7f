"""Counts -> confidence bounds -> certified radii. NumPy and SciPy only.

Every number that enters a claim is rounded towards the cautious side: SciPy's special functions are accurate to a
few units in the last place, and `_SLACK` (relative 9.1e-13) is far more than that and far less than any printed digit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtri

from smoothcert.errors import ConfigError

_SLACK = 2.0**-40

Array = NDArray[np.float64]

DEFAULT_SPLIT = 0.9
"""Share of alpha that the multiclass radius spends on the top class; fixed in advance, never tuned per input."""


def check_alpha(alpha: float) -> float:
    if not 0.0 < alpha < 1.0:
        raise ConfigError(f"alpha is a failure probability between 0 and 1 (both excluded), found {alpha!r}")
    return alpha


def check_sigma(sigma: float) -> float:
    if not (math.isfinite(sigma) and sigma > 0):
        raise ConfigError(f"sigma, the standard deviation of the noise, must be above 0, found {sigma!r}")
    return sigma


def smallest_n(alpha: float) -> int:
    """The fewest samples with which a unanimous vote certifies anything: alpha^(1/n) >= 1/2."""
    return math.ceil(math.log2(1.0 / check_alpha(alpha)))


def check_samples(n0: int, n: int, alpha: float) -> None:
    if n0 < 1:
        raise ConfigError(f"n0, the number of selection samples, must be at least 1, found {n0}")
    least = smallest_n(alpha)
    if n < least:
        raise ConfigError(
            f"n = {n} samples cannot certify anything at alpha = {alpha:g}, not even if all agree: "
            f"use n >= {least} (the field's tables use 100000)"
        )


def lower_bound(count: ArrayLike, n: ArrayLike, alpha: float) -> Array:
    """One-sided Clopper-Pearson lower bound of a probability: Beta.ppf(alpha; k, n-k+1), 0 when k = 0."""
    k, total = _counts(count, n)
    check_alpha(alpha)
    p = betaincinv(np.maximum(k, 1.0), total - k + 1.0, alpha)
    return np.where(k == 0, 0.0, p * (1.0 - _SLACK))


def upper_bound(count: ArrayLike, n: ArrayLike, alpha: float) -> Array:
    """One-sided Clopper-Pearson upper bound: 1 - lower bound of the complementary count, which keeps the rounding."""
    k, total = _counts(count, n)
    return 1.0 - lower_bound(total - k, total, alpha)


def radius(p_lower: ArrayLike, sigma: float) -> Array:
    """Cohen's binary l2 radius sigma * Phi^-1(p), rounded down; 0 where p <= 1/2."""
    p = np.asarray(p_lower, dtype=np.float64)
    z = ndtri(np.clip(p, 0.5, 1.0))
    return np.where(p > 0.5, check_sigma(sigma) * z * (1.0 - _SLACK), 0.0)


def multiclass_radius(
    top: ArrayLike, other: ArrayLike, n: ArrayLike, alpha: float, sigma: float, split: float = DEFAULT_SPLIT
) -> Array:
    """sigma/2 (Phi^-1(p_A lower) - Phi^-1(p_B upper)), rounded down, 0 where not positive.

    `top` counts the class that the selection samples named, `other` is the largest count of any other class in the
    same estimation samples. The lower bound spends split*alpha, the upper bound the rest: since the upper bound grows
    with the count and the truly second class never counts more than the maximum, no union over classes is needed.
    """
    if not 0.0 < split < 1.0:
        raise ConfigError(f"split is the share of alpha spent on the top class, between 0 and 1, found {split!r}")
    p_a = lower_bound(top, n, split * alpha)
    p_b = np.minimum(upper_bound(other, n, (1.0 - split) * alpha), 1.0 - p_a)
    with np.errstate(invalid="ignore"):
        half = 0.5 * check_sigma(sigma) * (ndtri(p_a) - ndtri(p_b))
    # absolute slack as well: the difference of two nearly equal quantiles cancels leading digits
    return np.where(p_a > p_b, np.maximum(half * (1.0 - _SLACK) - sigma * _SLACK, 0.0), 0.0)


def top_two_p_value(first: ArrayLike, second: ArrayLike) -> Array:
    """PREDICT's two-sided exact binomial test of n1 of n1+n2 at 1/2 (Hung and Fithian); 1 when both are equal.

    At p = 1/2 the binomial is symmetric, so the two-sided p-value is twice the upper tail P(X >= max(n1, n2)).
    """
    a, b = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    high, low = np.maximum(a, b), np.minimum(a, b)
    tail = betainc(np.maximum(high, 1.0), low + 1.0, 0.5)
    return np.where(high == low, 1.0, np.minimum(1.0, 2.0 * tail * (1.0 + _SLACK)))


def _counts(count: ArrayLike, n: ArrayLike) -> tuple[Any, Any]:
    k, total = np.broadcast_arrays(np.asarray(count, dtype=np.float64), np.asarray(n, dtype=np.float64))
    if np.any(total < 1) or np.any(k < 0) or np.any(k > total):
        raise ConfigError(f"a count must lie between 0 and n >= 1, found count {count!r} of n {n!r}")
    return k, total
