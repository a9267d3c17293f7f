"""The measures class by class: an average over all inputs hides weak classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.report.measures.analysis import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
)
from smoothcert.report.read.certificates import Certificates


@dataclass(frozen=True)
class ClassValues:
    """The measures over the inputs with one label."""

    label: int
    inputs: int
    acr: float
    abstention: float
    accuracy: tuple[float, ...]  # certified accuracy at each radius asked for


def per_class(
    c: Certificates, radii: Sequence[float] = (), rounded: bool = False
) -> list[ClassValues]:
    """For each label k: CA_k(r) = (1/N_k) #{i : label_i = k, correct_i, R_i >= r}, ACR_k likewise, ascending in k."""
    found = []
    for label in np.unique(c.label).tolist():
        own = c.where(c.label == label)
        shares = tuple(certified_accuracy(own, list(radii), rounded).tolist())
        acr = average_certified_radius(own, rounded)
        found.append(ClassValues(label, own.rows, acr, abstention_rate(own), shares))
    return found
