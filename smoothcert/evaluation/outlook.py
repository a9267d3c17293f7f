"""What a planned certification can prove, and what it will cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.statistics import bounds
from smoothcert.statistics.sequential import Procedure

_EXAMPLES = 4  # simulated votes per image


@dataclass(frozen=True)
class Limits:
    """What n and alpha allow at one sigma, whatever the network."""

    largest_radius: float
    smallest_p: float  # of the samples that must agree, or the answer is an abstention


def limits_of(sigma: float, n: int, alpha: float, law: bounds.Law) -> Limits:
    largest = float(bounds.radius(bounds.lower_bound(n, n, alpha), sigma, law))
    # the smallest count that certifies anything lies above the first, at most at the second
    low, high = n // 2, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if float(bounds.lower_bound(middle, n, alpha)) > 0.5 else (middle, high)
        )
    return Limits(largest, high / n)


def samples_expected(test: Procedure, shares: NDArray[np.float64], seed: int = 0) -> float:
    """Average samples that a test takes of images whose top classes have these shares of the votes."""
    rng = np.random.default_rng(seed)
    return float(
        np.mean([samples_of(test, float(share), rng) for share in shares for _ in range(_EXAMPLES)])
    )


def samples_of(test: Procedure, p: float, rng: np.random.Generator) -> int:
    """Samples that a test takes of an image whose top class has this share of the votes."""
    state, count, before = test.start, 0, 0
    for look, last in enumerate(test.looks):
        count += int(rng.binomial(last - before, p))
        state, before = test.advance(state, look, count), last
        if test.finished(state):
            break
    return before
