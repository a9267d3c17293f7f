"""Accuracy under attack beside certified accuracy: the accuracy against the worst change lies between the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.report.measures.analysis import certified_accuracy
from smoothcert.report.read.attacks import Attacks
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
    alarm = _contradicts(a, certificates)
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


def _contradicts(a: Attacks, certificates: Certificates | None) -> NDArray[np.bool_]:
    """By the certificates, or by what the store says of them: an alarm does not go when certificates are made anew."""
    found = _answers_otherwise(a, a.certified_predict, a.certified_radius)
    return found if certificates is None else np.asarray(found | contradicts(a, certificates))


def contradicts(a: Attacks, certificates: Certificates) -> NDArray[np.bool_]:
    """The rows of an attack that answer otherwise inside the radius of these certificates."""
    place = np.searchsorted(certificates.idx, a.idx).clip(max=certificates.rows - 1)
    known = certificates.idx[place] == a.idx
    now = _answers_otherwise(a, certificates.predict[place], certificates.radius[place])
    return np.asarray(known & now)


def _answers_otherwise(
    a: Attacks, predict: NDArray[np.float64] | NDArray[np.int64], radius: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Where the answer differs from the certified one inside its radius; nan is in no radius, an abstention no answer.

    A certificate that abstains has radius 0, and nothing is inside it.
    """
    return np.asarray((a.distance < radius) & (a.predict != -1) & (a.predict != predict))
