"""The paired bootstrap: is a difference between two runs more than chance in the choice of test inputs?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import Floats, input_radii
from smoothcert.report.read.certificates import Certificates

FEWEST = 6
NO_INTERVAL = (
    f"has no interval: the bootstrap takes {FEWEST} inputs or more whose values are not all equal"
)


@dataclass(frozen=True)
class Interval:
    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval, so that the sign of the difference is not in doubt."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Difference:
    """First run minus second: of the ACR, and of the certified accuracy at each radius asked for."""

    acr: Interval
    accuracy: tuple[Interval, ...]


def paired_bootstrap(
    first: Certificates,
    second: Certificates | Sequence[Certificates],
    rng: np.random.Generator,
    *,
    radii: Sequence[float] = (),
    level: float = 0.95,
    resamples: int = 2000,
    rounded: bool = False,
) -> Difference:
    """Percentile intervals of mean(d*), where d_i = a_i - b_i and d* draws N of the N inputs with replacement.

    For the ACR a_i = correct_i R_i, for CA(r) it is 1 if correct_i and R_i >= r, else 0. Of several second runs, b_i
    is their mean. All must have certified the same inputs. The intervals are about chance in the test inputs, not in
    training. Those of CA(r) are widened for inputs unlike all that were seen (`_with_unseen`). The ACR has none (nan)
    where the bootstrap cannot tell (`tells`): how far radii of other inputs would differ is not known.
    """
    others = [second] if isinstance(second, Certificates) else second
    for other in others:
        _same_inputs(first, other)
    if not (0 < level < 1 and resamples >= 1):
        raise ConfigError(
            f"expected 0 < level < 1 and resamples >= 1, found {level} and {resamples}"
        )
    theirs = np.mean([_values(other, radii, rounded) for other in others], axis=0)
    d = _values(first, radii, rounded) - theirs  # [N, 1 + radii]
    columns = np.ascontiguousarray(d.T)
    means = np.array([columns @ draw_inputs(len(d), rng) for _ in range(resamples)]) / len(d)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    value = d.mean(axis=0)
    low[1:], high[1:] = _with_unseen(value[1:], low[1:], high[1:], len(d), level)
    if not tells(d[:, 0]):
        low[0] = high[0] = np.nan
    intervals = [Interval(*map(float, entry)) for entry in zip(value, low, high, strict=True)]
    return Difference(intervals[0], tuple(intervals[1:]))


def paired_curve(
    first: Certificates,
    second: Certificates,
    rng: np.random.Generator,
    radii: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    rounded: bool = False,
) -> tuple[Floats, Floats, Floats]:
    """CA_first(r) - CA_second(r) at many ascending radii, and both ends of its intervals, each for its own radius.

    With the same generator, these are the intervals of `paired_bootstrap`; here an input is counted by how many of the
    radii it reaches, so that a resample takes as long for hundreds of radii as for one.
    """
    _same_inputs(first, second)
    grid = np.asarray(radii, dtype=np.float64)
    reached = [
        np.searchsorted(grid, input_radii(c, rounded), side="right") * c.correct
        for c in (first, second)
    ]

    def difference(weights: NDArray[np.intp]) -> Floats:
        sums = [
            np.bincount(place, weights, len(grid) + 1)[::-1].cumsum()[::-1] for place in reached
        ]
        return np.asarray((sums[0] - sums[1])[1:] / first.rows)

    resampled = np.array([difference(draw_inputs(first.rows, rng)) for _ in range(resamples)])
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    value = difference(np.ones(first.rows, np.intp))
    return value, *_with_unseen(value, low, high, first.rows, level)


def _with_unseen(
    value: Floats, low: Floats, high: Floats, inputs: int, level: float
) -> tuple[Floats, Floats]:
    """Ends of intervals of differences of CA, moved outwards as far as inputs of a kind that was not seen may lead.

    The bootstrap draws what was seen, so that its interval is [0, 0] where no input differs. But a kind with a share q
    of all inputs is missing among N with probability (1 - q)^N, which is 1 - level for q = 1 - (1 - level)^(1/N),
    about 3/N. Such inputs may all differ by -1, or all by 1.
    """
    q = 1 - (1 - level) ** (1 / inputs)
    return np.minimum(low, value - q * (1 + value)), np.maximum(high, value + q * (1 - value))


def tells(values: Floats) -> bool:
    """Whether draws of these values say how far their mean may lie from that over all inputs.

    Drawn means never leave the values, so that equal ones give an interval of width 0. Even the whole range of N values
    lies on one side of the median of all with probability 2^(1 - N), which is below 5 % from N = 6 on.
    """
    return len(values) >= FEWEST and bool(np.ptp(values) > 0)


def draw_inputs(inputs: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """How often each of N inputs comes up in N draws."""
    return np.bincount(rng.integers(0, inputs, size=inputs, dtype=np.int32), minlength=inputs)


def _values(c: Certificates, radii: Sequence[float], rounded: bool) -> Floats:
    """What each input adds to ACR and CA(r), [N, 1 + radii]; nan where r was not tested."""
    radius = input_radii(c, rounded)
    acr = c.correct * (radius if c.tested_radii is None else np.nan)
    shares = [np.where(c.tested_at(r), c.correct & (radius >= r), np.nan) for r in radii]
    return np.stack([acr, *shares], axis=1)


def _same_inputs(first: Certificates, second: Certificates) -> None:
    if not np.array_equal(first.idx, second.idx):
        shared = len(np.intersect1d(first.idx, second.idx, assume_unique=True))
        raise ConfigError(
            f"a paired comparison needs the same inputs: '{first.name}' has {first.rows}, '{second.name}' has "
            f"{second.rows}, and {shared} are in both; certify the same indices with both"
        )
    if not np.array_equal(first.label, second.label):
        raise ConfigError(
            f"'{first.name}' and '{second.name}' disagree on the labels of the same indices: not the same inputs"
        )
