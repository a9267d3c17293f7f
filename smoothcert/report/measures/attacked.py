"""Accuracy under attack beside certified accuracy: the accuracy against the worst change lies between the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.report.measures.analysis import certified_accuracy
from smoothcert.report.read.attacks import Attacks, contradicted
from smoothcert.report.read.certificates import Certificates


@dataclass(frozen=True)
class EmpiricalRow:
    """Shares of the inputs that were attacked at one radius; None is not known."""

    radius: float
    inputs: int
    empirical: float
    """Answered correctly by the smoothed classifier (PREDICT), abstentions counted as errors."""
    abstained: float
    certified: float | None
    alarms: tuple[int, ...]
    """Inputs that answered with another class within their certified radius: each contradicts a certificate."""
    base: float | None = None
    """Answered correctly by the network itself, without noise."""
    noisy: float | None = None
    """Answered correctly by the network under a single noise: the mean share of PREDICT's noisy copies."""


def empirical_rows(a: Attacks, certificates: Certificates | None = None) -> list[EmpiricalRow]:
    """One row for each attacked radius. Without certificates, certified is what the store says of them."""
    alarm = contradicted(a, certificates)
    return [_row(a, radius, certificates, alarm) for radius in a.radii]


def _row(
    a: Attacks, radius: float, certificates: Certificates | None, alarm: NDArray[np.bool_]
) -> EmpiricalRow:
    here = a.radius == radius
    return EmpiricalRow(
        radius=radius,
        inputs=int(here.sum()),
        empirical=float(a.correct[here].mean()),
        abstained=float((a.predict[here] == -1).mean()),
        certified=_certified(a, radius, certificates),
        alarms=tuple(a.idx[here & alarm].tolist()),
        base=None if a.base_predict is None else float((a.base_predict == a.label)[here].mean()),
        noisy=None if a.votes is None else float(a.votes[here].mean() / a.n),
    )


def _certified(a: Attacks, radius: float, certificates: Certificates | None) -> float | None:
    """Certified accuracy of the inputs that were attacked at a radius, if all of them are known."""
    here = a.radius == radius
    if certificates is not None:
        among = np.isin(certificates.idx, a.idx[here])
        share = (
            float(certified_accuracy(certificates.where(among), radius))
            if among.sum() == here.sum()
            else np.nan
        )
        return None if np.isnan(share) else share
    if np.isnan(a.certified_radius[here]).any():
        return None
    return float(((a.certified_predict == a.label) & (a.certified_radius >= radius))[here].mean())
