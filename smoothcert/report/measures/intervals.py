"""How far the measures of one run may lie from those over all images that the inputs were drawn from.

Shares have the exact interval of Clopper and Pearson, means of radii the percentile bootstrap. Both speak of the choice
of inputs, not of the luck of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.report.measures.analysis import Floats, abstention_rate, curve_values, input_radii
from smoothcert.report.measures.bootstrap import Interval, draw_inputs, tells
from smoothcert.report.read.certificates import Certificates

LEVEL = 0.95


@dataclass(frozen=True)
class RunIntervals:
    """Of the ACR (the mean radius, where nothing is labelled), the abstention rate, and the share at each radius."""

    mean: Interval
    abstention: Interval
    shares: tuple[Interval, ...]


def share_intervals(shares: ArrayLike, inputs: int, level: float = LEVEL) -> list[Interval]:
    """The two-sided Clopper-Pearson interval of each share of `inputs`; nan where the share is not known."""
    from smoothcert.statistics.bounds import (
        lower_bound,
        upper_bound,
    )  # with SciPy, which logs do not need otherwise

    values = np.asarray(shares, dtype=np.float64)
    known = np.isfinite(values)
    counts = np.round(np.where(known, values, 0.0) * inputs).astype(np.int64)
    low, high = (
        np.where(known, of(counts, inputs, (1 - level) / 2), np.nan)
        for of in (lower_bound, upper_bound)
    )
    return [Interval(*map(float, entry)) for entry in zip(values, low, high, strict=True)]


def mean_interval(
    values: Floats, rng: np.random.Generator, *, level: float = LEVEL, resamples: int = 1000
) -> Interval:
    """The percentile interval of the mean of N values, where each resample draws N of them with replacement.

    There is none (nan) where the bootstrap cannot tell (`tells`).
    """
    if not tells(values):
        return Interval(float(values.mean()), np.nan, np.nan)
    means = np.array([values @ draw_inputs(len(values), rng) for _ in range(resamples)]) / len(
        values
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def run_intervals(
    c: Certificates, radii: Sequence[float], rng: np.random.Generator, rounded: bool = False
) -> RunIntervals:
    """95 % intervals of what the main table shows of a run."""
    known = c.tested_radii is None
    mean = (
        mean_interval(c.counted * input_radii(c, rounded), rng)
        if known
        else Interval(np.nan, np.nan, np.nan)
    )
    (abstention,) = share_intervals([abstention_rate(c)], c.rows)
    return RunIntervals(
        mean, abstention, tuple(share_intervals(curve_values(c, list(radii), rounded), c.rows))
    )
