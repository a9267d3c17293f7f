"""What counts prove, worked out a second time: NumPy and SciPy's distributions, and nothing else of smoothcert.

`smoothcert.statistics` inverts the incomplete beta function. Here the binomial distribution itself is asked, and its
inverse is found by bisection. A mistake would have to be made twice to stay unseen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, ndtr, ndtri

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_NEGLIGIBLE = 1e-35  # probabilities below are left out of `thresholds`
_KEPT_BACK = 1e-9  # share of alpha that radius tests do not spend (docs/soundness.md)


def lower_bound(count: Whole, n: Whole, alpha: float) -> Array:
    """The largest p with P(Bin(n, p) >= count) <= alpha; 0 for a count of 0."""
    pairs, place = np.unique(np.stack([count, n]), axis=1, return_inverse=True)
    low, high = np.zeros(pairs.shape[1]), np.ones(pairs.shape[1])
    for _ in range(100):  # so that bounds near 0 have all their digits too
        middle = 0.5 * (low + high)
        proved = bdtrc(pairs[0] - 1, pairs[1], middle) <= alpha
        low, high = np.where(proved, middle, low), np.where(proved, high, middle)
    return np.asarray(low[np.ravel(place)])


def _scale(sigma: float, law: str) -> float:
    """Half the width of uniform noise, or the scale of Laplace noise, of standard deviation sigma."""
    return {"uniform": math.sqrt(3.0), "laplace": 1.0 / math.sqrt(2.0)}.get(law, 1.0) * sigma


def radius(p: ArrayLike, sigma: float, law: str) -> Array:
    """The radius of a class of probability p; 0 up to 1/2."""
    p = np.clip(np.asarray(p, dtype=np.float64), 0.5, 1.0)
    scale = _scale(sigma, law)
    if law == "uniform":
        return np.asarray(scale * (2.0 * p - 1.0))
    with np.errstate(divide="ignore"):
        return np.asarray(
            -scale * np.log(2.0 * (1.0 - p)) if law == "laplace" else scale * ndtri(p)
        )


def probability(radius: ArrayLike, sigma: float, law: str) -> Array:
    """What the probability of a class must exceed for the radius."""
    x = np.asarray(radius, dtype=np.float64) / _scale(sigma, law)
    if law == "uniform":
        return np.asarray(0.5 + 0.5 * x)
    return np.asarray(1.0 - 0.5 * np.exp(-x) if law == "laplace" else ndtr(x))


def two_class_radius(p_a: Array, p_b: Array, sigma: float, law: str) -> Array:
    """The radius of a class of probability p_a at least where no other has more than p_b."""
    scale = _scale(sigma, law)
    with np.errstate(invalid="ignore", divide="ignore"):
        if law == "uniform":
            r = scale * (p_a - p_b)
        elif law == "laplace":
            r = scale * np.maximum(0.5 * np.log(p_a / p_b), -np.log(1.0 - p_a + p_b))
        else:
            r = 0.5 * scale * (ndtri(p_a) - ndtri(p_b))
    return np.where(p_a > p_b, r, 0.0)


def radius_looks(n: int) -> list[int]:
    """20, 25, 32, ... samples, each a quarter more, and n."""
    looks, j = [], 0
    while (look := -(-20 * 5**j // 4**j)) < n:
        looks.append(look)
        j += 1
    return [*sorted(set(looks)), n]


def thresholds(p: float, looks: Sequence[int], alpha: float) -> list[int]:
    """The smallest counts h_1, h_2, ... that spend alpha k/K until look k of K.

    If the probability is p, the chance that the count reaches h_i at any look i <= k is at most alpha k/K. `alive`
    holds the probabilities of the counts from `first` on, on paths that have reached no threshold yet.
    """
    from scipy.stats import binom  # which takes a second to import, and most stores need none of it

    first, alive, spent, before = 0, np.ones(1), 0.0, 0
    found = []
    for k, look in enumerate(looks, start=1):
        steps = np.arange(look - before + 1)
        chances = binom.pmf(steps, look - before, p)
        likely = np.flatnonzero(chances > _NEGLIGIBLE)
        alive = np.convolve(alive, chances[likely[0] : likely[-1] + 1])
        first, before = first + int(likely[0]), look
        tails = np.cumsum(alive[::-1])[::-1]
        under = int(np.count_nonzero(tails > alpha * (1.0 - _KEPT_BACK) * k / len(looks) - spent))
        found.append(
            first + under if under < len(alive) else look + 1
        )  # more than there are samples: never
        spent += float(tails[under]) if under < len(alive) else 0.0
        inside = np.flatnonzero(alive[:under] > _NEGLIGIBLE)
        first, alive = first + int(inside[0]), alive[inside[0] : inside[-1] + 1]
    return found
