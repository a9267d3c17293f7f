"""Which claims of a sequential procedure the final counts allow. The counts at earlier looks are not stored, so that
these conditions are necessary, and as sharp as final counts make them. NumPy only, many inputs at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smoothcert.statistics.sequential import RadiusTest, RepeatedBounds

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Answers = NDArray[np.bool_]

ROUNDING = 1e-11
"""Difference between bounds that two versions of SciPy may compute."""


def radius_claims(test: RadiusTest, look: Integers, count: Integers, passed: Integers) -> Answers:
    """Whether sampling may have stopped at `look` with `count` and with the first `passed` radii certified."""
    looks = np.array(test.looks)
    certify = np.array([table.certify for table in test.tables])  # [radii, looks]
    futile = np.array([table.futile for table in test.tables])
    certify = np.where(certify > looks, np.iinfo(np.int64).max, certify)  # more than all samples: never
    ever = np.minimum.accumulate(certify, axis=1)  # the least count by which a radius may have been certified
    # A radius given up at an earlier look had at least `count` less all samples since.
    slack = np.maximum.accumulate(futile - looks, axis=1)
    given_up = np.concatenate([np.full((len(futile), 1), -looks[-1] - 1), slack[:, :-1]], axis=1)
    found = np.zeros(len(look), bool)
    for certified in range(len(certify) + 1):
        rows = np.flatnonzero(passed == certified)
        at, k = look[rows], count[rows]
        possible = (k >= ever[:certified, at]).all(axis=0)
        now = (k >= certify[:certified, at]).any(axis=0)  # the last radius was certified at this very look ...
        if certified < len(certify):
            now &= k - looks[at] <= given_up[certified, at]
            now |= k <= futile[certified, at]  # ... or the next one was given up at it
        found[rows] = possible & now
    return found


def bound_claims(test: RepeatedBounds, look: int, count: Integers, p: Floats) -> Answers:
    """Whether sampling may have stopped at `look` with `count` and with `p` as the best lower bound of all looks."""
    here = test.bound(look, count)
    known = np.abs(p - here) <= ROUNDING
    rows = np.flatnonzero(p > here + ROUNDING)
    for earlier in range(look):
        known[rows] |= _bound_of_earlier_look(test, earlier, look, count[rows], p[rows])
    return known & test.enough(look, count, p + ROUNDING)


def _bound_of_earlier_look(test: RepeatedBounds, earlier: int, look: int, count: Integers, p: Floats) -> Answers:
    """Whether some count at an earlier look gives the bound p, and sampling had to go on there."""
    low = np.maximum(count - (test.looks[look] - test.looks[earlier]), 0)
    high = np.minimum(count, test.looks[earlier])
    while (low < high).any():
        middle = (low + high) // 2
        below = test.bound(earlier, middle) < p - ROUNDING
        low, high = np.where(below, np.minimum(middle + 1, high), low), np.where(below, high, middle)
    return (np.abs(test.bound(earlier, low) - p) <= ROUNDING) & ~test.enough(earlier, low, p - ROUNDING)
