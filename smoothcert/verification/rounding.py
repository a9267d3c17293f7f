"""Which differences between stored counts and counts drawn again another machine explains.

Noise of integers is the same on every machine. Only the network rounds otherwise, so that few answers flip, and about
as many to a class as away from it. `float` noise depends on the kind of device: its counts are those of other samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from scipy.stats import fisher_exact

from smoothcert.runs.counts import FLIPS, class_counts, top_class, within_flips

Row = Mapping[str, str]

_LEAN = (
    0.05  # how much more often they flip one way: near a boundary, one side is a little more likely
)
_CHANCE = 1e-4  # of a lean of all inputs together; Hoeffding's inequality overstates it
_OTHER_SAMPLES = 1e-9  # of counts of other samples, under Fisher's exact test


def explained(stored: Row, again: Row, noise: str, looks: Sequence[int]) -> bool:
    """Whether the counts of one input may differ so, on machines of two kinds. Both rows end at one look."""
    if noise != "float":
        return within_flips(stored, again, looks)
    label, counted = (
        top_class(stored["counts0"]),
        [class_counts(row["counts"]) for row in (stored, again)],
    )
    table = [
        [counts.get(label, 0), sum(counts.values()) - counts.get(label, 0)] for counts in counted
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
        label = top_class(stored["counts0"])
        there, now = (class_counts(row["counts"]) for row in (stored, again))
        difference = there.get(label, 0) - now.get(label, 0)
        total, squares = total + difference, squares + difference**2
        samples += sum(there.values())
    variance = min(float(squares), FLIPS * samples)
    return total, math.sqrt(2 * math.log(2 / _CHANCE) * variance) + _LEAN * variance
