"""One number with what it is of: measured of a run, or printed in a paper."""

from __future__ import annotations

import math
from typing import NamedTuple

CERTIFIED_ACCURACY = "certified accuracy"
ACR = "ACR"
ABSTENTION = "abstention rate"
UNDER_ATTACK = "accuracy under attack"
CLEAN = "clean accuracy"
MEAN_ACCURACY = "mean certified accuracy"
"""Over the types of corruption, or over their severities too."""
MEAN_ACR = "mean ACR"


class Value(NamedTuple):
    """Shares are shares (0 to 1), radii are in l2 norm; nan is what is not known."""

    of: str  # the label of a run, group, class, or row of a paper
    measure: str
    value: float
    r: float | None = None  # the radius that it is at
    on: str = ""  # the part of the data that it is about: "fog/3", "class 7"
    low: float = math.nan
    high: float = math.nan
    sd: float = math.nan  # over seeds
    seeds: int = 1
    images: int = 0
