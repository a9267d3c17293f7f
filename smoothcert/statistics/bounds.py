"""Counts -> confidence bounds -> certified radii. NumPy and SciPy only.

Every number that enters a claim is rounded towards the cautious side: SciPy's special functions are accurate to a
few units in the last place, and `_SLACK` (relative 9.1e-13) is far more than that and far less than any printed digit.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtr, ndtri

from smoothcert.config.choices import Law as Law  # named here too, beside the radii
from smoothcert.errors import ConfigError

_SLACK = 2.0**-40

Array = NDArray[np.float64]

NORMS: dict[Law, str] = {"gaussian": "l2", "uniform": "l1", "laplace": "l1"}
"""The norm that radii are in, by the law of the noise."""

DEFAULT_SPLIT = 0.9
"""Share of alpha that the multiclass radius spends on the top class; fixed in advance, never tuned per input."""


def check_alpha(alpha: float) -> float:
    if (
        not isinstance(alpha, Real) or not 1e-100 <= alpha < 1.0
    ):  # below, the special functions fail
        raise ConfigError(
            f"alpha is a failure probability, at least 1e-100 and below 1, found {alpha!r}"
        )
    return alpha


def check_sigma(sigma: float) -> float:
    if (
        not isinstance(sigma, Real) or not 0 < sigma <= 1000
    ):  # beyond, 8-bit sums would no longer be exact in float32
        raise ConfigError(
            f"sigma, the standard deviation of the noise, must be above 0 (to 1000), found {sigma!r}"
        )
    return sigma


def _scale(sigma: float, law: Law) -> float:
    """Half the width of uniform noise, or the scale of Laplace noise, of standard deviation sigma."""
    return (
        check_sigma(sigma)
        * {"gaussian": 1.0, "uniform": math.sqrt(3.0), "laplace": math.sqrt(0.5)}[law]
    )


def smallest_n(alpha: float) -> int:
    """The fewest samples with which a unanimous vote certifies anything: alpha^(1/n) >= 1/2."""
    return math.ceil(math.log2(1.0 / check_alpha(alpha)))


def check_samples(n0: int, n: int, alpha: float) -> None:
    for name, count in (("n0", n0), ("n", n)):
        if not isinstance(count, Integral):
            raise ConfigError(f"{name} counts samples and must be a whole number, found {count!r}")
        if count > 2**32:
            raise ConfigError(
                f"{name} counts samples, of which an image has 2^32 at most, found {count}"
            )
    if n0 < 1:
        raise ConfigError(f"n0, the number of selection samples, must be at least 1, found {n0}")
    least = smallest_n(alpha)
    if n < least:
        raise ConfigError(
            f"n = {n} samples cannot certify anything at alpha = {alpha:g}, not even if all agree: "
            f"use n >= {least} (the field's tables use 100000)"
        )


def lower_bound(count: ArrayLike, n: ArrayLike, alpha: float, slack: float = 0.0) -> Array:
    """One-sided Clopper-Pearson lower bound of a probability: Beta.ppf(alpha; k, n-k+1), 0 when k = 0.

    `slack` is the most by which the law of the samples may misstate the probability; the bound is lowered by it.
    """
    k, total = _counts(count, n)
    check_alpha(alpha)
    a, b = np.maximum(k, 1.0), total - k + 1.0
    p = betaincinv(a, b, alpha) * (1.0 - _SLACK)
    # the inverse is checked against its function, P(Bin(n, p) >= k), and lowered in the rare cases where it is too high
    for less in (1e-9, 1e-6, 1e-3):
        high = betainc(a, b, p) > alpha
        if not high.any():
            break
        p = np.where(high, p * (1.0 - less), p)
    return np.where(k == 0, 0.0, np.maximum(p - slack, 0.0))


def upper_bound(count: ArrayLike, n: ArrayLike, alpha: float, slack: float = 0.0) -> Array:
    """One-sided Clopper-Pearson upper bound: 1 - lower bound of the complementary count, which keeps the rounding."""
    k, total = _counts(count, n)
    return 1.0 - lower_bound(total - k, total, alpha, slack)


def radius(p_lower: ArrayLike, sigma: float, law: Law) -> Array:
    """The certified radius of a class with probability p, rounded down; 0 where p <= 1/2.

    Gaussian noise: Cohen's binary l2 radius sigma * Phi^-1(p). Uniform noise on [-w, w]: l1 radius 2 w (p - 1/2).
    Laplace noise of scale b: l1 radius -b ln(2 (1 - p)). In all three, sigma is the noise's standard deviation.
    """
    p = np.clip(np.asarray(p_lower, dtype=np.float64), 0.5, 1.0)
    scale = _scale(sigma, law)
    if law == "gaussian":
        r = scale * ndtri(p)
    elif law == "uniform":
        r = 2.0 * scale * (p - 0.5)
    else:
        with np.errstate(divide="ignore"):
            r = -scale * np.log1p(1.0 - 2.0 * p)
    return np.where(p > 0.5, r * (1.0 - _SLACK), 0.0)


def probability_at(radius: ArrayLike, sigma: float, law: Law) -> Array:
    """The inverse of `radius`, rounded up: a class whose p exceeds it is certified at the radius."""
    r = np.asarray(radius, dtype=np.float64)
    if not np.all(r >= 0):
        raise ConfigError(f"a radius is a distance, at least 0, found {radius!r}")
    x = r / _scale(sigma, law)
    # by the complement, whose relative accuracy survives where p is close to 1
    rest = {
        "gaussian": ndtr(-x),
        "uniform": np.maximum(0.5 - 0.5 * x, 0.0),
        "laplace": 0.5 * np.exp(-x),
    }[law]
    return np.asarray(
        np.nextafter(
            1.0 - np.maximum(rest * (1.0 - _SLACK) - _SLACK * (law == "uniform"), 0.0), 2.0
        )
    )


def linf_radius(l2_radius: ArrayLike, values: int) -> Array:
    """The l-infinity radius that an l2 radius contains for inputs of d values: r / sqrt(d), rounded down."""
    if values < 1:
        raise ConfigError(f"expected the number of values of an input, at least 1, found {values}")
    return np.asarray(
        np.asarray(l2_radius, dtype=np.float64) * ((1.0 - _SLACK) / math.sqrt(values))
    )


def multiclass_radius(
    top: ArrayLike,
    other: ArrayLike,
    n: ArrayLike,
    alpha: float,
    sigma: float,
    law: Law,
    split: float = DEFAULT_SPLIT,
    slack: float = 0.0,
) -> Array:
    """The radius by bounds of both the top class and the second: for Gaussian noise
    sigma/2 (Phi^-1(p_A lower) - Phi^-1(p_B upper)); rounded down, 0 where not positive.

    `top` counts the class that the selection samples named, `other` is the largest count of any other class in the
    same estimation samples. The lower bound spends split*alpha, the upper bound the rest: since the upper bound grows
    with the count and the truly second class never counts more than the maximum, no union over classes is needed.
    """
    if not 0.0 < split < 1.0:
        raise ConfigError(
            f"split is the share of alpha spent on the top class, between 0 and 1, found {split!r}"
        )
    p_a = lower_bound(top, n, split * alpha, slack)
    return two_class_radius(p_a, upper_bound(other, n, (1.0 - split) * alpha, slack), sigma, law)


def two_class_radius(p_a: Array, p_b: Array, sigma: float, law: Law) -> Array:
    """The radius by a lower bound of the top class's probability and an upper bound of the second's, rounded down."""
    p_b = np.minimum(p_b, 1.0 - p_a)
    scale = _scale(sigma, law)
    with np.errstate(invalid="ignore", divide="ignore"):
        if law == "gaussian":
            r = 0.5 * scale * (ndtri(p_a) - ndtri(p_b))
        elif law == "uniform":  # moving by r changes any probability by r / 2w at most
            r = scale * (p_a - p_b)
        else:  # moving by r changes any probability, and its complement, by a factor e^(r/b) at most
            r = scale * np.maximum(0.5 * np.log(p_a / p_b), -np.log1p(p_b - p_a))
    # absolute slack as well: the difference of two nearly equal numbers cancels leading digits
    return np.where(p_a > p_b, np.maximum(r * (1.0 - _SLACK) - sigma * _SLACK, 0.0), 0.0)


def top_two_p_value(first: ArrayLike, second: ArrayLike) -> Array:
    """PREDICT's two-sided exact binomial test of n1 of n1+n2 at 1/2 (Hung and Fithian); 1 when both are equal.

    At p = 1/2 the binomial is symmetric, so the two-sided p-value is twice the upper tail P(X >= max(n1, n2)).
    """
    a, b = np.broadcast_arrays(
        np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    )
    high, low = np.maximum(a, b), np.minimum(a, b)
    tail = betainc(np.maximum(high, 1.0), low + 1.0, 0.5)
    return np.where(high == low, 1.0, np.minimum(1.0, 2.0 * tail * (1.0 + _SLACK)))


def _counts(count: ArrayLike, n: ArrayLike) -> tuple[Any, Any]:
    k, total = np.broadcast_arrays(
        np.asarray(count, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    if np.any(total < 1) or np.any(k < 0) or np.any(k > total):
        raise ConfigError(
            f"a count must lie between 0 and n >= 1, found count {count!r} of n {n!r}"
        )
    return k, total
