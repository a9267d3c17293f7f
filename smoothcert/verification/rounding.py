"""Which differences between stored counts and counts drawn again another machine explains.

Noise of integers is the same on every machine. Only the network rounds otherwise, so that few answers flip, and about
as many to a class as away from it. `float` noise depends on the kind of device: its counts are those of other samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from scipy.stats import fisher_exact

Row = Mapping[str, str]

_FLIPS, _FEW = 0.01, 3  # at most this share of the answers to an input flips, or so many
_LEAN = (
    0.05  # how much more often they flip one way: near a boundary, one side is a little more likely
)
_CHANCE = 1e-4  # of a lean of all inputs together; Hoeffding's inequality overstates it
_OTHER_SAMPLES = 1e-9  # of counts of other samples, under Fisher's exact test


def class_counts(text: str) -> dict[int, int]:
    """Of "class:count,class:count"."""
    return {
        int(label): int(count)
        for label, count in (entry.split(":") for entry in text.split(",") if entry)
    }


def explained(stored: Row, again: Row) -> bool:
    """Whether the counts of one input may differ so. Both rows have as many samples."""
    stages = [
        (class_counts(stored[stage]), class_counts(again[stage])) for stage in ("counts0", "counts")
    ]
    if stored["noise"] != "float":
        return all(_flips(a, b) <= max(_FEW, _FLIPS * sum(a.values())) for a, b in stages)
    label = _selected(stored)
    table = [
        [counts.get(label, 0), sum(counts.values()) - counts.get(label, 0)] for counts in stages[1]
    ]
    return bool(fisher_exact(table).pvalue > _OTHER_SAMPLES)


def lean(pairs: Iterable[tuple[Row, Row]]) -> tuple[int, float]:
    """By how much the selected classes of all inputs together were counted more often than now; and how much may be.

    Under integer noise. If flips go either way alike, the difference d of an input is as likely as -d, and has on
    average the square of the number of flips, which is at most 1 % of the samples. Then by Hoeffding's inequality
    |sum of d| > sqrt(2 ln(2 / chance) V) with at most that chance, both for V = the sum of d^2 and for V = 1 % of all
    samples.
    """
    total, squares, samples = 0, 0, 0
    for stored, again in pairs:
        label, there, now = (
            _selected(stored),
            class_counts(stored["counts"]),
            class_counts(again["counts"]),
        )
        difference = there.get(label, 0) - now.get(label, 0)
        total, squares, samples = (
            total + difference,
            squares + difference**2,
            samples + sum(there.values()),
        )
    variance = min(float(squares), _FLIPS * samples)
    return total, math.sqrt(2 * math.log(2 / _CHANCE) * variance) + _LEAN * variance


def _selected(row: Row) -> int:
    counts = class_counts(row["counts0"])
    return min(counts, key=lambda label: (-counts[label], label))


def _flips(a: Mapping[int, int], b: Mapping[int, int]) -> int:
    """The fewest answers that must have changed."""
    return sum(abs(a.get(label, 0) - b.get(label, 0)) for label in a.keys() | b.keys()) // 2
