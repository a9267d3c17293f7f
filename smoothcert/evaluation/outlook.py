"""What a planned certification can prove, and what it will cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.statistics import bounds
from smoothcert.statistics.laws import Law
from smoothcert.statistics.stopping import Stopping

_EXAMPLES = 4  # simulated votes per image


@dataclass(frozen=True)
class Limits:
    """What n and alpha allow at one sigma, whatever the network."""

    largest_radius: float
    smallest_p: float  # of the samples that must agree, or the answer is an abstention


def limits_of(sigma: float, n: int, alpha: float, law: Law) -> Limits:
    largest = float(law.radius(bounds.lower_bound(n, n, alpha), sigma))
    low, high = (
        n // 2,
        n,
    )  # the smallest count that certifies anything lies above the first, at most at the second
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if float(bounds.lower_bound(middle, n, alpha)) > 0.5 else (middle, high)
        )
    return Limits(largest, high / n)


def samples_expected(stopping: Stopping, shares: NDArray[np.float64], seed: int = 0) -> float:
    """Average samples for images whose top classes have these shares of the votes."""
    rng = np.random.default_rng(seed)
    return float(samples_taken(stopping, np.repeat(shares, _EXAMPLES), rng).mean())


def samples_taken(
    stopping: Stopping, shares: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Samples of an image with each share, as they might be drawn."""
    looks = np.array(stopping.looks)
    path = rng.binomial(np.diff(looks, prepend=0), shares[:, None]).cumsum(1)
    taken = np.full(len(shares), looks[-1])
    for look in reversed(range(len(looks))):
        taken[stopping.judge(path[:, : look + 1]).finished] = looks[look]
    return taken
