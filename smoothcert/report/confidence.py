"""The confidence behind the radii: p_A, its distribution, and the radius that no confidence can exceed.

Sun et al. (arXiv:2410.06895) recommend the distribution of p_A beside the ACR: it does not depend on how the
quantile function stretches the last per cent.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import ConfigError
from smoothcert.report.analysis import Floats
from smoothcert.report.certificates import Certificates

_NORMAL = NormalDist()


def normal_cdf(x: ArrayLike) -> Floats:
    """Phi, the distribution function of the standard normal."""
    values, place = np.unique(np.asarray(x, dtype=np.float64), return_inverse=True)
    return np.array([_NORMAL.cdf(value) for value in values.tolist()], dtype=np.float64)[place]


def p_lower(c: Certificates) -> Floats:
    """The lower bound of p_A of each input: as stored, or Phi(R / sigma) for a log, where an abstention has 0."""
    if c.p_lower is not None and not np.isnan(c.p_lower).any():
        return c.p_lower
    if c.sigma is None:
        raise ConfigError(f"{c.name}: sigma is not known, so p_A cannot be recovered from the radii of this log")
    return np.where(c.abstained, 0.0, normal_cdf(c.radius / c.sigma))


def p_ecdf(c: Certificates, p: ArrayLike) -> Floats:
    """P(p_A >= p) = (1/N) #{i : correct_i and p_lower_i >= p}, for each p in [1/2, 1]."""
    asked = np.asarray(p, dtype=np.float64)
    if not ((asked >= 0.5) & (asked <= 1)).all():
        raise ConfigError(f"expected probabilities in [0.5, 1], found {asked}")
    own = np.sort(p_lower(c)[c.correct])
    return np.asarray((len(own) - np.searchsorted(own, asked, side="left")) / c.rows)


def p_curve(c: Certificates) -> tuple[Floats, Floats]:
    """The corners of P(p_A >= p) from p = 1/2 to the right: both ends of each drop, the last at 0."""
    p = np.union1d([0.5], np.maximum(p_lower(c)[c.correct], 0.5))
    return np.repeat(p, 2), np.append(np.repeat(p_ecdf(c, p), 2)[1:], 0.0)


def saturation_radius(sigma: float, n: int, alpha: float) -> float:
    """The radius when all n samples agree, the largest there is: sigma Phi^-1(alpha^(1/n))."""
    if not (sigma > 0 and n >= 1 and 0 < alpha < 1):
        raise ConfigError(f"expected sigma > 0, n >= 1 and 0 < alpha < 1, found {sigma}, {n} and {alpha}")
    p = math.exp(math.log(alpha) / n)
    return sigma * _NORMAL.inv_cdf(p) if p > 0.5 else 0.0


def saturation(c: Certificates) -> float | None:
    """The saturation radius of a run, if it records what decides it.

    A log that records neither n nor alpha is taken to have the field's, if its largest radius is just theirs.
    """
    if c.sigma is None:
        return None
    if c.n is None and c.alpha is None:
        field = saturation_radius(c.sigma, 100_000, 0.001)
        return field if format(float(c.radius.max()), ".3") == format(field, ".3") else None
    return None if c.n is None or c.alpha is None else saturation_radius(c.sigma, c.n, c.alpha)
