"""One number with what it is of: measured of a run, or printed in a paper."""

from __future__ import annotations

import math
from typing import NamedTuple

ACR = "ACR"
MEAN_ACR = "mean ACR"  # over corruptions: of one severity, or of all
CERTIFIED_ACCURACY = "certified accuracy"
MEAN_ACCURACY = "mean certified accuracy"  # likewise
CLEAN = "accuracy at radius 0"  # of the run that is the best at a radius
ABSTENTION = "abstention rate"
SPREAD = "spread of radii"
"""Standard deviation over the images of a run; a wrong answer and an abstention have radius 0, as in the ACR."""

Place = tuple[str, float | None, str]
"""Measure, radius and part of the data."""


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

    @property
    def place(self) -> Place:
        """What it is a value of, whoever has it."""
        return self.measure, self.r, self.on

    @property
    def is_share(self) -> bool:
        """Whether it is printed in percent."""
        return self.measure not in (ACR, MEAN_ACR, SPREAD)
