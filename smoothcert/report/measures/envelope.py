"""The upper envelope: the best model for each radius, as SmoothAdv's tables choose it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import abstention_rate, certified_accuracy, clean_accuracy
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


def upper_envelope(results: Sequence[Certificates], radii: Sequence[float], rounded: bool = False) -> list[Winner]:
    """max_k CA_k(r) for each r, over the runs that tested r; radii that no run tested are left out.

    Of equal runs the one with the larger CA(0) wins, then the first.
    """
    if not results:
        raise ConfigError("an envelope needs at least one run, found none")
    accuracy = np.array([certified_accuracy(c, list(radii), rounded) for c in results])  # [runs, radii]
    clean = [clean_accuracy(c) for c in results]
    winners = []
    for j, radius in enumerate(radii):
        known = [k for k in range(len(results)) if not np.isnan(accuracy[k, j])]
        if not known:
            continue
        top = float(max(accuracy[k, j] for k in known))
        tied = [k for k in known if accuracy[k, j] == top]
        tied.sort(key=lambda k: -np.nan_to_num(clean[k], nan=-1.0))
        best = tied[0]
        winners.append(Winner(float(radius), top, best, clean[best], abstention_rate(results[best]), tuple(tied)))
    return winners
