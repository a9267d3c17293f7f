"""The largest radius that n samples can certify. Needs no NumPy for Gaussian noise, so that listing recipes is fast."""

from __future__ import annotations

import math
from statistics import NormalDist

from smoothcert.errors import ConfigError


def saturation_radius(sigma: float, n: int, alpha: float, law: str) -> float:
    """The radius when all n samples agree: for Gaussian noise sigma Phi^-1(alpha^(1/n))."""
    if not (sigma > 0 and n >= 1 and 0 < alpha < 1):
        raise ConfigError(
            f"expected sigma > 0, n >= 1 and 0 < alpha < 1, found {sigma}, {n} and {alpha}"
        )
    p = math.exp(math.log(alpha) / n)
    if law != "gaussian":
        from smoothcert.statistics.laws import law_named

        return float(law_named(law).radius(p, sigma))
    return sigma * NormalDist().inv_cdf(p) if p > 0.5 else 0.0
