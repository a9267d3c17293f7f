"""When sampling stops, and what may be claimed then. NumPy and SciPy only.

A rule sees only how often the selected class has been counted at fixed *looks*: `counts` has the
numbers of each input at the looks so far, [inputs, looks], and -1 at looks that it did not reach.

* `FixedSize`: n samples, one look.
* `RadiusTests`: "is the input certified at radius r_1 < r_2 < ...?" by group-sequential tests.
* `RepeatedBounds`: a radius, until going on could not raise it by more than a tolerance.
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
from smoothcert.statistics.bounds import Array
from smoothcert.statistics.laws import Law

Integers = NDArray[np.int64]
Answers = NDArray[np.bool_]

FUTILITY = 0.001
"""Chance of giving up on a radius that the input has: it costs accuracy, never validity."""

EARLY = 0.2
"""Share of alpha that the looks before the last share in `RepeatedBounds`."""

_KEPT_BACK = 1e-9  # relative part of alpha: rounding over a whole table is below 1e-11
_CUT = 1e-40  # masses below this are left out of a table; all of them together, for any n in use,
_LOST = 1e-30  # are below this, which is charged as spent


class Judgement(NamedTuple):
    """Of each input. `radius` is nan where nothing may be claimed."""

    p_lower: Array
    radius: Array
    finished: Answers


class Stopping(Protocol):
    looks: tuple[int, ...]

    def judge(self, counts: Integers) -> Judgement: ...


@dataclass(frozen=True)
class Level:
    """What all rules need: the law of the noise and how far samples are from it, and alpha."""

    law: Law
    sigma: float
    n: int
    alpha: float
    tau: float = 0.0

    def __post_init__(self) -> None:
        bounds.check_alpha(self.alpha)


def describe(rule: Stopping) -> dict[str, Any]:
    """What decides the outcome, for a manifest."""
    if isinstance(rule, RadiusTests):
        spending = {"looks": "20*1.25^j", "spending": "alpha*k/K", "beta": FUTILITY}
        return {"procedure": "radius", "radii": list(rule.radii), **spending}
    if isinstance(rule, RepeatedBounds):
        looks = {"looks": list(rule.looks), "early_alpha": EARLY, "beta": FUTILITY}
        return {"procedure": "tolerance", "tolerance": rule.tolerance, **looks}
    return {"procedure": "fixed"}


class FixedSize:
    """CERTIFY of Cohen et al.: one Clopper-Pearson bound from n samples."""

    def __init__(self, level: Level) -> None:
        self.looks: tuple[int, ...] = (level.n,)
        self._level = level

    def judge(self, counts: Integers) -> Judgement:
        of = self._level
        taken = counts[:, 0] >= 0
        p = bounds.lower_bound(np.maximum(counts[:, 0], 0), of.n, of.alpha, of.tau)
        radius = np.where(taken & (p >= 0.5), of.law.radius(p, of.sigma), np.nan)
        return Judgement(np.where(taken, p, 0.0), radius, taken)


def radius_looks(n: int) -> tuple[int, ...]:
    """20, 25, 32, ... (each a quarter more), and n."""
    looks, look = [], 20.0
    while look < n:
        looks.append(math.ceil(look))
        look *= 1.25
    return (*sorted({look for look in looks if look < n}), n)


class RadiusTests:
    """Group-sequential tests at radii r_1 < r_2 < ... on one sample path, in fixed sequence.

    A radius counts as certified only if all smaller ones are. A false claim then needs the first
    radius that the input does not have to pass its own test, so each may spend all of alpha.
    """

    def __init__(self, radii: Sequence[float], level: Level, beta: float = FUTILITY) -> None:
        bounds.check_alpha(beta)
        self.radii = tuple(map(float, radii))
        if not self.radii or sorted({*self.radii}) != [*self.radii] or not self.radii[0] >= 0:
            raise ConfigError(
                f"radii to test must be given in rising order, each at least 0, found {list(radii)}"
            )
        n, alpha = level.n, level.alpha
        self.looks = radius_looks(n)
        self.probabilities = level.law.probability(self.radii, level.sigma)
        tables = []
        for radius, p in zip(self.radii, self.probabilities + level.tau, strict=True):
            # before any table is made: n unanimous samples must be able to certify it
            if p >= 1.0 or n * math.log(p) > math.log(alpha * (1.0 - 2.0 * _KEPT_BACK)):
                raise ConfigError(
                    f"radius {radius:g} cannot be certified with n = {n} samples at sigma = "
                    f"{level.sigma:g} and alpha = {alpha:g}, not even if all agree: raise n or "
                    "leave this radius out"
                )
            tables.append(threshold_table(float(p), self.looks, alpha, beta))
        self.certify, self.futile = (np.array(t) for t in zip(*tables, strict=True))  # [r, looks]

    def decisions(self, counts: Integers) -> Integers:
        """[inputs, radii]: 1 certified, -1 given up, 0 not decided. The first decision stands."""
        k, seen = counts[:, None, :], counts.shape[1]
        known = (k >= self.certify[:, :seen]) * 1 - ((k <= self.futile[:, :seen]) & (k >= 0)) * 1
        first = (known != 0).argmax(2)
        return np.take_along_axis(known, first[:, :, None], 2)[:, :, 0]

    def judge(self, counts: Integers) -> Judgement:
        decided = self.decisions(counts)
        certified = np.cumprod(decided == 1, axis=1).sum(1)  # how many in sequence
        following = np.append(decided, np.ones((len(counts), 1)), axis=1)
        finished = following[np.arange(len(counts)), certified] != 0
        radius = np.array([np.nan, *self.radii])[certified]
        return Judgement(np.array([0.0, *self.probabilities])[certified], radius, finished)


@lru_cache(maxsize=256)
def threshold_table(
    p0: float, looks: tuple[int, ...], alpha: float, beta: float = FUTILITY
) -> tuple[Integers, Integers]:
    """The exact group-sequential test of "p <= p0" at level alpha, spending alpha*k/K until look
    k of K: certify if the count is at least the first number, give up if at most the second.

    Giving up can only prevent a certification, so `certify` is computed as if nothing ever were.
    """
    certify = upper_thresholds(p0, 1.0 - p0, looks, alpha)
    failures = upper_thresholds(1.0 - p0, p0, looks, beta)
    t = np.array(looks, dtype=np.int64)
    # out of reach: even if all samples to come succeed, no later threshold is met
    room = np.minimum.accumulate((certify - t)[::-1])[::-1]
    futile = np.maximum(t - failures, t + np.append(room[1:], 1) - 1)
    futile[-1] = certify[-1] - 1
    return certify, np.minimum(futile, certify - 1)


def upper_thresholds(p: float, q: float, looks: tuple[int, ...], alpha: float) -> Integers:
    """Smallest h_k with P_p(count reaches h_i at some look i <= k) <= alpha*k/K, for every k.

    `mass[j]` is the probability that the count is start + j and no threshold was reached yet.
    Only positive numbers are added and multiplied, so relative errors stay near machine
    precision, even at tails of 1e-12.
    """
    start, mass = 0, np.ones(1)
    spent, before = _LOST, 0
    thresholds = []
    for k, look in enumerate(looks, start=1):
        first, step = _binomial(look - before, p, q)
        start, mass, before = start + first, np.convolve(mass, step), look
        tails = np.cumsum(mass[::-1])[::-1]  # tails[j] = P(count >= start + j, not stopped)
        budget = alpha * (1.0 - _KEPT_BACK) * k / len(looks) - spent
        kept = int(np.count_nonzero(tails > budget))
        # if even the largest count is too likely, nothing is certified: look + 1 is impossible
        thresholds.append(start + kept if kept < len(mass) else look + 1)
        spent += float(tails[kept]) if kept < len(mass) else 0.0
        mass = mass[:kept]
        inside = np.flatnonzero(mass > _CUT)
        start, mass = start + int(inside[0]), mass[inside[0] : inside[-1] + 1]
    return np.array(thresholds, dtype=np.int64)


def _binomial(m: int, p: float, q: float) -> tuple[int, Array]:
    """First count and probabilities of Bin(m, p), q = 1 - p, where they exceed `_CUT`.

    By ratios of neighbours from the mode outwards: accurate to about 1e-13 there.
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


class RepeatedBounds:
    """Clopper-Pearson bounds at a few looks, the best of which counts.

    They hold all at once with probability 1 - alpha, so any rule may decide when to stop. This
    one predicts the radius after all n samples from an upper bound of the probability, and stops
    if that is at most `tolerance` above the radius already certain.
    """

    def __init__(self, tolerance: float, level: Level, beta: float = FUTILITY) -> None:
        if not tolerance >= 0:
            raise ConfigError(
                f"tolerance is a difference of radii, at least 0, found {tolerance!r}"
            )
        n, alpha = level.n, level.alpha
        scaled = (round(n * share) for share in (0.001, 0.004, 0.016, 0.064, 0.256))
        self.looks = (*(look for look in scaled if look >= 20), n)
        early = len(self.looks) - 1
        last = alpha * ((1.0 - EARLY) if early else 1.0)
        self.alphas = (*(EARLY * alpha / early for _ in range(early)), last)
        self.tolerance, self._beta, self._level = tolerance, beta, level

    def judge(self, counts: Integers) -> Judgement:
        of, seen = self._level, counts.shape[1]
        each = [self.bound(look, np.maximum(counts[:, look], 0)) for look in range(seen)]
        best = np.where(counts >= 0, np.stack(each, axis=1), 0.0).max(1, initial=0.0)
        now = of.law.radius(best, of.sigma)
        finished = self.enough(seen - 1, np.maximum(counts[:, -1], 0), best)
        return Judgement(best, np.where(best >= 0.5, now, np.nan), finished)

    def bound(self, look: int, count: ArrayLike) -> Array:
        """The lower bound of the probability at one look."""
        return bounds.lower_bound(count, self.looks[look], self.alphas[look], self._level.tau)

    def enough(self, look: int, count: Integers, best: Array) -> Answers:
        """Whether all n samples could not raise the radius of `best` by more than the tolerance."""
        of, size = self._level, self.looks[look]
        if size == of.n:
            return np.ones(len(count), bool)
        p_upper = bounds.upper_bound(count, size, self._beta, of.tau)
        final_count = np.minimum(count + of.n - size, np.ceil(p_upper * of.n))
        final = bounds.lower_bound(final_count, of.n, self.alphas[-1], of.tau)
        more = of.law.radius(final, of.sigma) - of.law.radius(best, of.sigma)
        return np.asarray(more <= self.tolerance)
