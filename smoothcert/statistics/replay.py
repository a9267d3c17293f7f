"""Which claims of a sequential procedure the final counts allow. The counts at earlier looks are not stored, so that
these conditions are necessary, and as sharp as final counts make them. NumPy only, many inputs at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smoothcert.statistics.stopping import RadiusTests, RepeatedBounds

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Answers = NDArray[np.bool_]

ROUNDING = 1e-11
"""Difference between bounds that two versions of SciPy may compute."""

_NEVER = 2**60


def radius_claims(test: RadiusTests, look: Integers, count: Integers, passed: Integers) -> Answers:
    """Whether sampling may have stopped at `look` with `count` and with the first `passed` radii certified."""
    looks = np.array(test.looks)
    futile = test.futile
    certify = np.where(
        test.certify > looks, _NEVER, test.certify
    )  # [radii, looks]; a count above all samples cannot be
    rising = bool(
        (np.diff(certify, axis=0) >= 0).all()
    )  # then smaller radii are certified no later than larger ones
    ever = np.minimum.accumulate(
        certify, axis=1
    )  # the least count with which a radius may have been certified
    surplus = np.maximum.accumulate(
        futile - looks, axis=1
    )  # the same for giving up: all samples since then succeeded
    found = np.zeros(len(look), bool)
    for certified in range(len(certify) + 1):
        rows = np.flatnonzero(passed == certified)
        at, k = look[rows], count[rows]
        least = k - np.diff(looks, prepend=0)[at]  # the count at the look before, or more
        new = (k >= certify[:certified, at]) & (least < _before(certify, _NEVER)[:certified, at])
        stopped = new[certified - 1] if rising and certified else new.any(axis=0)
        if certified < len(certify):
            given_up = k <= futile[certified, at]
            stopped &= given_up | (k - looks[at] <= _before(surplus, -_NEVER)[certified, at])
            stopped |= given_up & (k > _before(futile, -1)[certified, at])
        found[rows] = stopped & (k >= ever[:certified, at]).all(axis=0)
    return found


def _before(values: Integers, first: int) -> Integers:
    """The values [radii, looks] of the look before; `first` where there is none."""
    return np.concatenate([np.full((len(values), 1), first), values[:, :-1]], axis=1)


def bound_claims(test: RepeatedBounds, look: int, count: Integers, p: Floats) -> Answers:
    """Whether sampling may have stopped at `look` with `count` and with `p` as the best lower bound of all looks."""
    here = test.bound(look, count)
    known = np.abs(p - here) <= ROUNDING
    rows = np.flatnonzero(p > here + ROUNDING)
    for earlier in range(look):
        known[rows] |= _bound_of_earlier_look(test, earlier, look, count[rows], p[rows])
    return known & test.enough(look, count, p + ROUNDING)


def _bound_of_earlier_look(
    test: RepeatedBounds, earlier: int, look: int, count: Integers, p: Floats
) -> Answers:
    """Whether some count at an earlier look gives the bound p, and sampling had to go on there."""
    low = np.maximum(count - (test.looks[look] - test.looks[earlier]), 0)
    high = np.minimum(count, test.looks[earlier])
    while (low < high).any():
        middle = (low + high) // 2
        below = test.bound(earlier, middle) < p - ROUNDING
        low, high = (
            np.where(below, np.minimum(middle + 1, high), low),
            np.where(below, high, middle),
        )
    return (np.abs(test.bound(earlier, low) - p) <= ROUNDING) & ~test.enough(
        earlier, low, p - ROUNDING
    )
