"""Why the noise level must not depend on the input: the bound of SmoothMix's theorem 1, as a calculator.

Jeong et al. (arXiv:2111.09277, appendix on input-dependent noise scales). Let delta have d i.i.d. coordinates of mean
0, variance 1 and fourth moment E[r^4], let a classifier answer c at x with probability p under noise sigma*delta, and
let x' be within epsilon of x. If x' is smoothed with another noise level tau, then the worst such classifier answers c
at x' with probability at most C/d: in high dimension nothing can be certified, however close x' is.

With D = |tau^2 - sigma^2| and eta^2 = E[r^4] - 1,

    C = max( 4 sigma^4 eta^2 / (D^2 (1-p)),  6 epsilon^2 / D,  (36 tau^4 eta^2 + 144 tau^2 epsilon^2) / D^2 ).

Deviation: the last two terms of the published constant have sigma^2 + tau^2 in the place of D. The proof needs the
distance from tau^2 to the shell around sigma^2, which is D/2 - epsilon^2/d >= D/3, not (sigma^2 + tau^2)/3; with D the
same steps (Chebyshev on |tau delta|^2/d and on the cross term) hold for every sigma != tau.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import ConfigError

GAUSSIAN_FOURTH_MOMENT = 3.0


@dataclass(frozen=True)
class InputNoiseBound:
    """P(f(x' + tau delta) = c) <= C/d for the worst f with P(f(x + sigma delta) = c) = p, x' within epsilon of x."""

    p: float
    sigma: float
    tau: float
    epsilon: float
    fourth_moment: float = GAUSSIAN_FOURTH_MOMENT

    def __post_init__(self) -> None:
        if not 0.5 < self.p < 1:
            raise ConfigError(f"p must lie between 0.5 and 1, found {self.p}")
        if not (self.sigma > 0 and self.tau > 0 and self.sigma != self.tau):
            raise ConfigError(
                f"expected two different noise levels above 0, found {self.sigma} and {self.tau}"
            )
        if not 0 < self.epsilon <= 0.5:
            raise ConfigError(f"the theorem is about 0 < epsilon <= 1/2, found {self.epsilon}")
        if not self.fourth_moment >= 1:
            raise ConfigError(
                f"a variable of variance 1 has a fourth moment of at least 1, found {self.fourth_moment}"
            )

    @property
    def constant(self) -> float:
        gap = abs(self.tau**2 - self.sigma**2)
        spread = self.fourth_moment - 1  # eta^2
        return max(
            4 * self.sigma**4 * spread / (gap**2 * (1 - self.p)),
            6 * self.epsilon**2 / gap,
            (36 * self.tau**4 * spread + 144 * self.tau**2 * self.epsilon**2) / gap**2,
        )

    def at(self, dimension: ArrayLike) -> NDArray[np.float64]:
        """min(1, C/d)."""
        return np.minimum(1.0, self.constant / np.asarray(dimension, dtype=np.float64))
