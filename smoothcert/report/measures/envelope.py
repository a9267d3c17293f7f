"""The upper envelope: the best model for each radius, as SmoothAdv's tables choose it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import (
    Floats,
    abstention_rate,
    certified_accuracy,
    clean_accuracy,
    correct_radii,
)
from smoothcert.report.measures.same_data import contenders
from smoothcert.report.read.certificates import Certificates


@dataclass(frozen=True)
class Winner:
    """The best run at one radius; `run` is its place among those given, `clean` its accuracy at radius 0.

    `tied` are the places of all runs that are as good there, itself first.
    """

    radius: float
    accuracy: float
    run: int
    clean: float
    abstention: float
    tied: tuple[int, ...]


def upper_envelope(
    results: Sequence[Certificates],
    radii: Sequence[float],
    rounded: bool = False,
    *,
    any_run: bool = False,
) -> list[Winner]:
    """max_k CA_k(r) for each r, over the `contenders` that tested r; radii that none tested are left out.

    Of equal runs the one with the larger CA(0) wins, then the first. With `any_run` one that answers one class is taken
    where there is no other.
    """
    if not results:
        raise ConfigError("an envelope needs at least one run, found none")
    accuracy = np.array(
        [certified_accuracy(c, list(radii), rounded) for c in results]
    )  # [runs, radii]
    clean = [clean_accuracy(c) for c in results]
    winners = []
    for j, radius in enumerate(radii):
        tested = np.flatnonzero(~np.isnan(accuracy[:, j])).tolist()
        known = contenders(results, tested) or (tested if any_run else [])
        if not known:
            continue
        top = float(max(accuracy[k, j] for k in known))
        tied = [k for k in known if accuracy[k, j] == top]
        tied.sort(key=lambda k: -np.nan_to_num(clean[k], nan=-1.0))
        best = tied[0]
        winners.append(
            Winner(
                float(radius), top, best, clean[best], abstention_rate(results[best]), tuple(tied)
            )
        )
    return winners


@dataclass(frozen=True)
class Stretch:
    """`run`, a place among those given, is the best at every radius above `start` up to `end`; the first also at 0."""

    run: int
    start: float
    end: float


@dataclass(frozen=True)
class EnvelopeCurve:
    """The envelope as a step function, as `certified_curve` gives that of a run: `accuracy` on (radii[i-1], radii[i]].

    Beyond the last radius it is 0.
    """

    radii: Floats
    accuracy: Floats
    stretches: tuple[Stretch, ...]


def envelope_curve(results: Sequence[Certificates], rounded: bool = False) -> EnvelopeCurve | None:
    """max_k CA_k(r) for all r, with as few stretches as can be; None where no run measured radii of correct inputs.

    Each stretch is of the run that stays among the best for longest, which makes them fewest. Of equal runs the one
    with the larger CA(0) is taken, then the first. Runs that tested only some radii have no curve, and are left out;
    so are those that are no `contenders`.
    """
    known = contenders(
        results, [k for k, c in enumerate(results) if c.tested_radii is None and c.correct.any()]
    )
    if not known:
        return None
    known.sort(key=lambda k: -clean_accuracy(results[k]))
    radii = np.unique(np.concatenate([[0.0], *(correct_radii(results[k], rounded) for k in known)]))
    best = np.zeros(len(radii))
    for k in known:
        best = np.maximum(best, certified_accuracy(results[k], radii, rounded))
    is_best = [certified_accuracy(results[k], radii, rounded) == best for k in known]
    stretches, place = [], 0
    while place < len(radii):
        ends = {k: place + _leading(row[place:]) for k, row in zip(known, is_best, strict=True)}
        run = max(ends, key=ends.__getitem__)
        stretches.append(
            Stretch(run, float(radii[place - 1]) if place else 0.0, float(radii[ends[run] - 1]))
        )
        place = ends[run]
    return EnvelopeCurve(radii, best, tuple(stretches))


def _leading(flags: NDArray[np.bool_]) -> int:
    """How many of the flags are true before the first that is not."""
    first = int(flags.argmin())
    return len(flags) if flags[first] else first
