"""Stopping early without losing the guarantee: sequential tests over counts. NumPy and SciPy only.

Two procedures, both decided by the number of times the selected class has been counted at fixed *looks*:

* `RadiusTest` answers "is the input certified at radius r_1 < r_2 < ...?" by exact group-sequential tests.
* `RepeatedBounds` gives a radius, and stops when going on could not raise it by more than a tolerance.

Both are driven alike: ``state = advance(state, look, count)`` from ``start`` until ``finished(state)``, then ``claim``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import ConfigError
from smoothcert.statistics import bounds

Array = NDArray[np.float64]

FUTILITY = 0.001
"""Chance of giving up on a radius that the input has. It costs accuracy, never validity, so it is no part of alpha."""

_NUMERICAL = 1e-9  # relative part of alpha kept back: rounding over a whole table is below 1e-11
_CUT = (
    1e-40  # masses below this are left out of a table; all of them together, for any n in use, ...
)
_LOST = 1e-30  # ... are below this, which is charged as spent


class Claim(NamedTuple):
    """What may be claimed of the selected class; `radius` is None if nothing."""

    p_lower: float
    radius: float | None


NO_CLAIM = Claim(0.0, None)


class Procedure(Protocol):
    """What decides when to stop, and what may then be claimed."""

    looks: tuple[int, ...]
    start: Any

    def advance(self, state: Any, look: int, count: int) -> Any: ...

    def finished(self, state: Any) -> bool: ...

    def claim(self, state: Any) -> Claim: ...

    def describe(self) -> dict[str, Any]:
        """What decides the outcome, for a manifest."""
        ...


def procedure(
    n: int,
    alpha: float,
    sigma: float,
    *,
    radii: Sequence[float] | None = None,
    tolerance: float | None = None,
    slack: float = 0.0,
    law: bounds.Law,
) -> Procedure | None:
    """The sequential procedure that the settings ask for; None for a number of samples fixed in advance."""
    if radii is not None and tolerance is not None:
        raise ConfigError(
            "radii (test these radii) and tolerance (find a radius) exclude each other: give one of them"
        )
    if radii is not None:
        return RadiusTest(radii, sigma, n, alpha, slack=slack, law=law)
    return (
        None
        if tolerance is None
        else RepeatedBounds(tolerance, sigma, n, alpha, slack=slack, law=law)
    )


def radius_looks(n: int) -> tuple[int, ...]:
    """20, 25, 32, ... (each a quarter more), and n."""
    looks, look = [], 20.0
    while look < n:
        looks.append(math.ceil(look))
        look *= 1.25
    return (*sorted({look for look in looks if look < n}), n)


@dataclass(frozen=True, eq=False)
class Table:
    """When to stop at each look: certify if the count is at least `certify`, give up if it is at most `futile`."""

    looks: tuple[int, ...]
    certify: NDArray[np.int64]
    futile: NDArray[np.int64]
    spent: float
    """Probability of ever certifying if the true probability is p0, the worst of all p <= p0. At most alpha."""


@lru_cache(maxsize=256)
def threshold_table(
    p0: float, looks: tuple[int, ...], alpha: float, beta: float = FUTILITY
) -> Table:
    """The exact group-sequential test of "p <= p0" at level alpha, spending alpha*k/K until look k of K.

    Giving up can only prevent a certification, so `certify` is computed as if nothing were ever given up.
    """
    certify, spent = _upper_thresholds(p0, 1.0 - p0, looks, alpha)
    failures, _ = _upper_thresholds(1.0 - p0, p0, looks, beta)
    t = np.array(looks, dtype=np.int64)
    # out of reach: even if all samples to come succeed, no later threshold is met
    room = np.minimum.accumulate((certify - t)[::-1])[::-1]
    futile = np.maximum(t - failures, t + np.append(room[1:], 1) - 1)
    futile[-1] = certify[-1] - 1
    return Table(looks, certify, np.minimum(futile, certify - 1), spent)


def _upper_thresholds(
    p: float, q: float, looks: tuple[int, ...], alpha: float
) -> tuple[NDArray[np.int64], float]:
    """Smallest h_k such that P_p(count reaches h_i at some look i <= k) <= alpha*k/K, for every look k.

    `mass[j]` is the probability that the count is start + j and no threshold was reached yet. Only positive numbers
    are added and multiplied, so relative errors stay near machine precision, even at tails of 1e-12.
    """
    start, mass = 0, np.ones(1)
    spent, before = _LOST, 0
    thresholds = []
    for k, look in enumerate(looks, start=1):
        first, step = _binomial(look - before, p, q)
        start, mass, before = start + first, np.convolve(mass, step), look
        tails = np.cumsum(mass[::-1])[::-1]  # tails[j] = P(count >= start + j, not stopped)
        kept = int(np.count_nonzero(tails > alpha * (1.0 - _NUMERICAL) * k / len(looks) - spent))
        # if even the largest possible count is too likely, nothing is certified here: a count of look + 1 is impossible
        thresholds.append(start + kept if kept < len(mass) else look + 1)
        spent += float(tails[kept]) if kept < len(mass) else 0.0
        mass = mass[:kept]
        inside = np.flatnonzero(mass > _CUT)
        start, mass = start + int(inside[0]), mass[inside[0] : inside[-1] + 1]
    return np.array(thresholds, dtype=np.int64), spent


def _binomial(m: int, p: float, q: float) -> tuple[int, Array]:
    """First count and probabilities of Bin(m, p), q = 1 - p, where they exceed `_CUT`.

    By ratios of neighbours from the mode outwards: accurate to about 1e-13 there, without logarithms of factorials.
    """
    mode = min(m, int((m + 1) * p))
    rise = np.arange(mode, m, dtype=np.float64)  # from k to k + 1
    fall = np.arange(mode, 0, -1, dtype=np.float64)  # from k to k - 1
    up = np.cumprod((m - rise) / (rise + 1.0) * (p / q))
    down = np.cumprod(fall / (m - fall + 1.0) * (q / p))
    weights = np.concatenate([down[::-1], [1.0], up])
    weights /= weights.sum()
    inside = np.flatnonzero(weights > _CUT)
    return int(inside[0]), weights[inside[0] : inside[-1] + 1]


class RadiusTest:
    """Group-sequential tests at radii r_1 < r_2 < ... on one sample path, accepted in fixed sequence.

    A radius counts as certified only if all smaller ones are. A false claim then needs the first radius that the input
    does not have to pass its own test, so each test may spend the whole of alpha. `slack` is added to the probability
    that must be exceeded (the distance of the sampled noise from the true one).
    """

    State = tuple[int, ...]  # of each radius: 0 open, 1 certified, -1 given up

    def __init__(
        self,
        radii: Sequence[float],
        sigma: float,
        n: int,
        alpha: float,
        *,
        beta: float = FUTILITY,
        slack: float = 0.0,
        law: bounds.Law,
    ) -> None:
        bounds.check_alpha(alpha)
        bounds.check_alpha(beta)
        self.radii = tuple(float(radius) for radius in radii)
        if not self.radii or sorted(set(self.radii)) != list(self.radii) or not self.radii[0] >= 0:
            raise ConfigError(
                f"radii to test must be given in rising order, each at least 0, found {list(radii)}"
            )
        self.looks, self._beta = radius_looks(n), beta
        self.probabilities = [
            float(bounds.probability_at(radius, sigma, law)) for radius in self.radii
        ]
        self.tables = []
        for radius, p in zip(self.radii, self.probabilities, strict=True):
            # checked before any table is made: it must be possible to certify with n unanimous samples
            if p + slack >= 1.0 or n * math.log(p + slack) > math.log(
                alpha * (1.0 - 2.0 * _NUMERICAL)
            ):
                raise ConfigError(
                    f"radius {radius:g} cannot be certified with n = {n} samples at sigma = {sigma:g} and "
                    f"alpha = {alpha:g}, not even if all agree: raise n or leave this radius out"
                )
            self.tables.append(threshold_table(p + slack, self.looks, alpha, beta))
        self.start: RadiusTest.State = (0,) * len(self.radii)

    def advance(self, state: RadiusTest.State, look: int, count: int) -> RadiusTest.State:
        return tuple(
            known or int(count >= table.certify[look]) - int(count <= table.futile[look])
            for known, table in zip(state, self.tables, strict=True)
        )

    def finished(self, state: RadiusTest.State) -> bool:
        """Whether all radii are certified, or the smallest of the others is given up: then larger ones cannot count."""
        return next((known != 0 for known in state if known != 1), True)

    def claim(self, state: RadiusTest.State) -> Claim:
        passed = next((place for place, known in enumerate(state) if known != 1), len(state))
        return Claim(self.probabilities[passed - 1], self.radii[passed - 1]) if passed else NO_CLAIM

    def describe(self) -> dict[str, Any]:
        rules = {"looks": "20*1.25^j", "spending": "alpha*k/K", "beta": self._beta}
        return {"procedure": "radius", "radii": list(self.radii), **rules}


class RepeatedBounds:
    """Clopper-Pearson bounds at a few looks, the best of which counts; the early looks share 20 % of alpha.

    The bounds hold all at once with probability 1 - alpha, so any rule may decide when to stop. This one predicts the
    radius after all n samples from an upper bound of the probability, and stops if that is at most `tolerance` above
    the radius already certain.
    """

    State = tuple[float, bool]  # best lower bound so far, finished

    def __init__(
        self,
        tolerance: float,
        sigma: float,
        n: int,
        alpha: float,
        *,
        beta: float = FUTILITY,
        slack: float = 0.0,
        law: bounds.Law,
        early: float = 0.2,
    ) -> None:
        bounds.check_alpha(alpha)
        if not tolerance >= 0:
            raise ConfigError(
                f"tolerance is a difference of radii, at least 0, found {tolerance!r}"
            )
        scaled = (round(n * share) for share in (0.001, 0.004, 0.016, 0.064, 0.256))
        self.looks = (*(look for look in scaled if look >= 20), n)
        before = len(self.looks) - 1  # looks before the last
        self.alphas = (
            *(early * alpha / before for _ in range(before)),
            alpha * ((1.0 - early) if before else 1.0),
        )
        self._tolerance, self._beta, self._slack, self._early = tolerance, beta, slack, early
        self._sigma, self._law = sigma, law
        self.start: RepeatedBounds.State = (0.0, False)

    def advance(self, state: RepeatedBounds.State, look: int, count: int) -> RepeatedBounds.State:
        best = max(state[0], float(self.bound(look, count)))
        return best, bool(self.enough(look, count, best))

    def bound(self, look: int, count: ArrayLike) -> Array:
        """The lower bound of the probability at one look."""
        return bounds.lower_bound(count, self.looks[look], self.alphas[look], self._slack)

    def enough(self, look: int, count: ArrayLike, best: ArrayLike) -> NDArray[np.bool_]:
        """Whether all n samples could not raise the radius of the lower bound `best` by more than the tolerance."""
        seen, n = self.looks[look], self.looks[-1]
        if seen == n:
            return np.ones(np.shape(count), bool)
        p_upper = bounds.upper_bound(count, seen, self._beta, self._slack)
        final_count = np.minimum(np.asarray(count) + n - seen, np.ceil(p_upper * n))
        final_bound = bounds.lower_bound(final_count, n, self.alphas[-1], self._slack)
        final, now = (bounds.radius(p, self._sigma, self._law) for p in (final_bound, best))
        return np.asarray(final - now <= self._tolerance)

    def finished(self, state: RepeatedBounds.State) -> bool:
        return state[1]

    def claim(self, state: RepeatedBounds.State) -> Claim:
        p = state[0]
        return Claim(p, float(bounds.radius(p, self._sigma, self._law)) if p >= 0.5 else None)

    def describe(self) -> dict[str, Any]:
        rules = {"looks": list(self.looks), "early_alpha": self._early, "beta": self._beta}
        return {"procedure": "tolerance", "tolerance": self._tolerance, **rules}
