"""The upper envelope: the best model for each radius, as SmoothAdv's tables choose it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.analysis import abstention_rate, certified_accuracy, clean_accuracy
from smoothcert.report.certificates import Certificates


@dataclass(frozen=True)
class Winner:
    """The best run at one radius; `run` is its place among those given, `clean` its accuracy at radius 0."""

    radius: float
    accuracy: float
    run: int
    clean: float
    abstention: float


def upper_envelope(results: Sequence[Certificates], radii: Sequence[float], rounded: bool = False) -> list[Winner]:
    """max_k CA_k(r) for each r; of equal runs the one with the larger CA(0) wins, then the first."""
    if not results:
        raise ConfigError("an envelope needs at least one run, found none")
    accuracy = np.array([certified_accuracy(c, list(radii), rounded) for c in results])  # [runs, radii]
    clean = [clean_accuracy(c) for c in results]
    winners = []
    for j, radius in enumerate(radii):
        best = max(range(len(results)), key=lambda k: (accuracy[k, j], clean[k]))
        winners.append(
            Winner(float(radius), float(accuracy[best, j]), best, clean[best], abstention_rate(results[best]))
        )
    return winners
