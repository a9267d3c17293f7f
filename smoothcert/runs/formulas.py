"""Do counts prove a radius? Asked of SciPy's distributions, and of nothing else of smoothcert.

`statistics/` finds the largest radius by inverting the incomplete beta function. Here a claimed
radius is put to the test: would a class with just the probability that it needs be counted so
often with a chance above alpha? A mistake would have to be made twice to stay unseen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtr, ndtri  # bdtrc: by another algorithm than betaincinv

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Answers = NDArray[np.bool_]

_NEGLIGIBLE = 1e-35  # probabilities below are left out of `thresholds`
_KEPT_BACK = 1e-10  # share of alpha that tests of radii may not spend; those that certify keep 1e-9
_SPLIT = 0.9  # share of alpha for the top class where the second is bounded too

NEEDED: dict[str, Callable[[Any], Any]] = {
    "gaussian": ndtr,
    "uniform": lambda r: np.minimum(0.5 + r / math.sqrt(12), 1.0),
    "laplace": lambda r: 1.0 - 0.5 * np.exp(-math.sqrt(2) * r),
}
"""The probability that a class needs for a radius, under each law of variance 1."""

_MULTICLASS: dict[str, Callable[[Array, Array], Any]] = {
    "gaussian": lambda r, p: ndtr(ndtri(p) + 2.0 * r),
    "uniform": lambda r, p: p + r / math.sqrt(3),
    "laplace": lambda r, p: np.minimum(
        p * np.exp(2 * math.sqrt(2) * r), p + 1 - np.exp(-math.sqrt(2) * r)
    ),
}
"""The same where no other class has more than the probability p."""


def tau_of(sigma: float, dimension: int) -> float:
    """How far the drawn integers are from their law, d (2M + 1) / 2^62 (docs/soundness.md)."""
    reach = 255 * (math.ceil(6 * sigma) + 1)
    return float(dimension * (2 * reach + 1) / 2.0**62)


def proved(procedure: Any, tau: float, path: Whole, radius: Array) -> Answers:
    """Whether the counts of the selected class at its looks prove the radius of each input.

    `path` [inputs, looks] is -1 at looks that were not reached; a radius of 0 says that the class
    is the most likely one.
    """
    n, alpha, sigma = procedure.n, procedure.alpha, procedure.sigma
    if procedure.radii is not None:
        return _tested(procedure, tau, path, radius)
    needed = np.asarray(NEEDED[procedure.law.name](radius / sigma)) + tau
    levels = {n: alpha}
    if procedure.tolerance is not None:
        early = [size for size in (round(n * 4**k / 1000) for k in range(5)) if size >= 20]
        levels = {size: 0.2 * alpha / len(early) for size in early}
        levels[n] = alpha * (0.8 if early else 1.0)
    found = np.zeros(len(path), bool)
    for look, (size, level) in enumerate(levels.items()):
        rows = path[:, look] >= 0
        found[rows] |= bdtrc(path[rows, look] - 1, size, np.minimum(needed[rows], 1.0)) <= level
    return np.asarray(found & (needed < 1.0))


def _tested(procedure: Any, tau: float, path: Whole, radius: Array) -> Answers:
    """A tested radius counts only if all smaller ones passed too."""
    found = (path >= 0).any(1)
    for r in procedure.radii:
        needed = float(NEEDED[procedure.law.name](r / procedure.sigma))
        reach = thresholds(needed + tau, radius_looks(procedure.n), procedure.alpha)
        passed = ((path >= 0) & (path >= np.array(reach))).any(1)
        found &= passed | (radius < r * (1 - 1e-8))
    return np.asarray(found)


def proved_by_two(procedure: Any, tau: float, top: Whole, other: Whole, radius: Array) -> Answers:
    """Whether counts of n samples prove a radius by bounds of both the top class and the second."""
    n, alpha = procedure.n, procedure.alpha
    second = 1.0 - lower_bound(n - other, n, (1 - _SPLIT) * alpha) + tau
    first = lower_bound(top, n, _SPLIT * alpha) - tau
    second = np.minimum(second, 1.0 - first)
    needed = np.asarray(_MULTICLASS[procedure.law.name](radius / procedure.sigma, second)) + tau
    chance = bdtrc(top - 1, n, np.minimum(needed, 1.0))
    fine = chance <= _SPLIT * alpha * (1 + 1e-7)
    return np.asarray(fine & (needed < 1.0) & (first > second))


def lower_bound(count: Whole, n: int, alpha: float) -> Array:
    """The largest p with P(Bin(n, p) >= count) <= alpha, by bisection; 0 for a count of 0."""
    counts, place = np.unique(count, return_inverse=True)
    low, high = np.zeros(len(counts)), np.ones(len(counts))
    for _ in range(100):  # so that bounds near 0 have all their digits too
        middle = 0.5 * (low + high)
        fine = bdtrc(counts - 1, n, middle) <= alpha
        low, high = np.where(fine, middle, low), np.where(fine, high, middle)
    return np.asarray(low[place])


def radius_looks(n: int) -> tuple[int, ...]:
    """20, 25, 32, ... samples, each a quarter more, and n."""
    looks, j = [], 0
    while (look := -(-20 * 5**j // 4**j)) < n:
        looks.append(look)
        j += 1
    return (*sorted(set(looks)), n)


@lru_cache(maxsize=64)
def thresholds(p: float, looks: Sequence[int], alpha: float) -> list[int]:
    """The smallest counts h_1, h_2, ... that spend alpha k/K until look k of K.

    If the probability is p, the chance that the count reaches h_i at any look i <= k is at most
    alpha k/K. `alive` holds the probabilities of the counts from `first` on, on paths that have
    reached no threshold yet.
    """
    from scipy.stats import binom  # which takes half a second, and most stores need none of it

    first, alive, spent, before = 0, np.ones(1), 0.0, 0
    found = []
    for k, look in enumerate(looks, start=1):
        chances = binom.pmf(np.arange(look - before + 1), look - before, p)
        likely = np.flatnonzero(chances > _NEGLIGIBLE)
        alive = np.convolve(alive, chances[likely[0] : likely[-1] + 1])
        first, before = first + int(likely[0]), look
        tails = np.cumsum(alive[::-1])[::-1]
        under = int(np.count_nonzero(tails > alpha * (1 - _KEPT_BACK) * k / len(looks) - spent))
        found.append(first + under if under < len(alive) else look + 1)  # more than there are
        spent += float(tails[under]) if under < len(alive) else 0.0
        inside = np.flatnonzero(alive[:under] > _NEGLIGIBLE)
        first, alive = first + int(inside[0]), alive[inside[0] : inside[-1] + 1]
    return found
