"""The confidence behind the radii: p_A, its distribution, and the radius that no confidence can exceed.

Sun et al. (arXiv:2410.06895) recommend the distribution of p_A beside the ACR, which depends strongly on inputs with
p_A close to 1: there the normal quantile function is steep.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import ConfigError
from smoothcert.published.row import ALPHA, N
from smoothcert.report.measures.analysis import Floats
from smoothcert.report.read.certificates import Certificates
from smoothcert.statistics.saturation import saturation_radius

_NORMAL = NormalDist()


def normal_cdf(x: ArrayLike) -> Floats:
    """Phi, the distribution function of the standard normal."""
    values, place = np.unique(np.asarray(x, dtype=np.float64), return_inverse=True)
    return np.array([_NORMAL.cdf(value) for value in values.tolist()], dtype=np.float64)[place]


def has_confidence(c: Certificates) -> bool:
    """Whether p_A is known. A store that tested only some radii holds the bound that a radius needs, not p_A."""
    return not why_unknown(c)


def why_unknown(c: Certificates) -> str:
    """Why p_A is not known; empty where it is."""
    if c.tested_radii is not None:
        return "certificates of chosen radii alone do not tell it"
    if _stored(c) is not None:
        return ""
    if c.norm != "l2":
        found = (
            f"were converted to {c.norm}: leave the norm out"
            if c.dimension
            else f"are in norm {c.norm}"
        )
        return f"a log tells it by l2 radii alone, and its radii {found}"
    return "logs whose path does not name sigma do not tell it" if c.sigma is None else ""


def no_confidence(results: Sequence[Certificates], what: str) -> ConfigError:
    """The error where `what` is to be made of runs none of whose p_A is known."""
    reasons = "; ".join(dict.fromkeys(map(why_unknown, results)))
    return ConfigError(
        f"{what} of confidence needs a run whose p_A is known, found none: {reasons}"
    )


def _stored(c: Certificates) -> Floats | None:
    return None if c.p_lower is None or np.isnan(c.p_lower).any() else c.p_lower


def p_lower(c: Certificates) -> Floats:
    """The lower bound of p_A of each input: as stored, or Phi(R / sigma) for a log, where an abstention has 0."""
    if (stored := _stored(c)) is not None:
        return stored
    if c.norm != "l2":
        raise ConfigError(
            f"{c.name}: p_A can be recovered from l2 radii only, found radii in norm {c.norm}"
        )
    if c.sigma is None:
        raise ConfigError(
            f"{c.name}: sigma is not known, so p_A cannot be recovered from the radii of this log"
        )
    return np.where(c.abstained, 0.0, normal_cdf(c.radius / c.sigma))


def p_ecdf(c: Certificates, p: ArrayLike) -> Floats:
    """P(p_A >= p) = (1/N) #{i : correct_i and p_lower_i >= p}, for each p in [1/2, 1]; of any answer if unlabelled."""
    asked = np.asarray(p, dtype=np.float64)
    if not ((asked >= 0.5) & (asked <= 1)).all():
        raise ConfigError(f"expected probabilities in [0.5, 1], found {asked}")
    own = np.sort(p_lower(c)[c.counted])
    return np.asarray((len(own) - np.searchsorted(own, asked, side="left")) / c.rows)


def p_curve(c: Certificates) -> tuple[Floats, Floats]:
    """The corners of P(p_A >= p) from p = 1/2 to the right: both ends of each drop, the last at 0."""
    p = np.union1d([0.5], np.maximum(p_lower(c)[c.counted], 0.5))
    return np.repeat(p, 2), np.append(np.repeat(p_ecdf(c, p), 2)[1:], 0.0)


def saturation(c: Certificates) -> float | None:
    """The saturation radius of a run, None where it is not known.

    A log without n and alpha is assumed to have the field's values if its largest radius is the one that these allow.
    Not known for sequential procedures, and for radii that were converted to another norm.
    """
    if c.sigma is None or c.identity.get("procedure", "fixed") != "fixed" or c.norm == "linf":
        return None
    if c.n is None and c.alpha is None:
        field = saturation_radius(c.sigma, N, ALPHA, "gaussian")
        return field if format(float(c.radius.max()), ".3") == format(field, ".3") else None
    return (
        None
        if c.n is None or c.alpha_each is None
        else saturation_radius(c.sigma, c.n, c.alpha_each, c.law)
    )
