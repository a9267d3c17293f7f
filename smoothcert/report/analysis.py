"""The field's measures of a certified classifier; NumPy only.

Throughout, input i of N has radius R_i and is *correct* if the smoothed classifier answers with its label (an
abstention is not correct). A tie counts: radius >= r is certified at r.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.report.certificates import Certificates

Floats = NDArray[np.float64]


def published_rounding(radius: ArrayLike) -> Floats:
    """Radii as the field's logs print them: 3 significant digits, `format(radius, ".3")`."""
    values, place = np.unique(np.asarray(radius, dtype=np.float64), return_inverse=True)
    rounded = np.array([float(format(value, ".3")) for value in values.tolist()], dtype=np.float64)
    return rounded[place]


def correct_radii(c: Certificates, rounded: bool = False) -> Floats:
    """The radii of the correct inputs, ascending."""
    radii = np.sort(c.radius[c.correct])
    return published_rounding(radii) if rounded else radii


def certified_accuracy(c: Certificates, radii: ArrayLike, rounded: bool = False) -> Floats:
    """CA(r) = (1/N) #{i : correct_i and R_i >= r}, as a fraction, for each r.

    `rounded` rounds the radii first, as published logs do: published tables need it to the last digit.
    """
    own = correct_radii(c, rounded)
    below = np.searchsorted(own, np.asarray(radii, dtype=np.float64), side="left")
    return np.asarray((len(own) - below) / c.rows)


def average_certified_radius(c: Certificates, rounded: bool = False) -> float:
    """ACR = (1/N) sum_i correct_i R_i: errors and abstentions count as 0."""
    return float(correct_radii(c, rounded).sum() / c.rows)


def clean_accuracy(c: Certificates) -> float:
    """CA(0): the share of inputs answered correctly, without abstention."""
    return float(c.correct.mean())


def abstention_rate(c: Certificates) -> float:
    """(1/N) #{i : predict_i = -1}."""
    return float(c.abstained.mean())


def median_radius(c: Certificates) -> float:
    """The median of R_i over the correct inputs; nan if there is none."""
    own = correct_radii(c)
    return float(np.median(own)) if len(own) else float("nan")


def certified_curve(c: Certificates, rounded: bool = False) -> tuple[Floats, Floats]:
    """CA as the exact step function: `radii` ascending from 0, and CA on (radii[i-1], radii[i]].

    Beyond the last radius it is 0. The area under it is the ACR: sum_i CA(radii[i]) (radii[i] - radii[i-1]).
    """
    radii = np.union1d([0.0], correct_radii(c, rounded))
    return radii, certified_accuracy(c, radii, rounded)


def default_radii(results: Sequence[Certificates], columns: int = 10) -> list[float]:
    """Multiples of 0.25 up to the largest radius that any run certifies, or of a coarser step if too many.

    Halving and doubling keeps every radius exact in binary, so that ties fall as in the published tables.
    """
    top = max((float(c.radius[c.correct].max(initial=0.0)) for c in results), default=0.0)
    step = 0.25
    while top // step + 1 > columns:
        step *= 2
    while 0 < top < step and step > 1e-3:
        step /= 2
    return [i * step for i in range(int(top // step) + 1)]
