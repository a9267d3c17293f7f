"""One certificate: what the counts of an input prove. NumPy only, so stored counts can be judged again anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert import bounds
from smoothcert.sequential import Claim

ABSTAIN = -1


@dataclass(frozen=True, eq=False)
class Certificate:
    """CERTIFY's answer (Cohen et al. 2019, section 3.2.2) with the counts that prove it.

    With probability at least 1 - alpha over the noise, the smoothed classifier returns `predict` for every image
    closer than `radius` in `norm`. `predict` is -1 (abstain) when that cannot be claimed for any radius.
    """

    predict: int
    radius: float
    p_lower: float
    multiclass_radius: float
    """Radius of `selected` by the two-class bound at the same alpha; may be positive when `predict` abstains.

    NaN if samples were stopped early: the bound holds for a number of samples fixed in advance.
    """
    selected: int
    counts0: NDArray[np.int64]
    counts: NDArray[np.int64]
    sigma: float
    alpha: float
    norm: str = "l2"

    @property
    def abstained(self) -> bool:
        return self.predict == ABSTAIN


def from_counts(
    counts0: NDArray[np.int64],
    counts: NDArray[np.int64],
    sigma: float,
    alpha: float,
    split: float = bounds.DEFAULT_SPLIT,
    slack: float = 0.0,
    law: bounds.Law = "gaussian",
) -> Certificate:
    """CERTIFY from the class counts of the selection and of the (independent) estimation samples.

    The class comes from the selection counts alone (ties: lowest class), the bound from the estimation counts alone.
    `slack` is how far the law of the samples may be from `law`, the noise that the certificate is about.
    """
    n = int(counts.sum())
    bounds.check_samples(int(counts0.sum()), n, alpha)
    selected = int(np.argmax(counts0))
    p_lower = float(bounds.lower_bound(counts[selected], n, alpha, slack))
    other = int(np.delete(counts, selected).max(initial=0))
    radius = float(bounds.radius(p_lower, sigma, law)) if p_lower >= 0.5 else None
    multiclass = float(bounds.multiclass_radius(counts[selected], other, n, alpha, sigma, split, slack, law))
    return from_claim(counts0, counts, Claim(p_lower, radius), sigma, alpha, multiclass, law)


def from_claim(
    counts0: NDArray[np.int64],
    counts: NDArray[np.int64],
    claim: Claim,
    sigma: float,
    alpha: float,
    multiclass_radius: float = math.nan,
    law: bounds.Law = "gaussian",
) -> Certificate:
    """A certificate of the class that the selection counts name, by whatever procedure made the claim about it."""
    selected = int(np.argmax(counts0))
    return Certificate(
        predict=ABSTAIN if claim.radius is None else selected,
        radius=claim.radius or 0.0,
        p_lower=claim.p_lower,
        multiclass_radius=multiclass_radius,
        selected=selected,
        counts0=counts0,
        counts=counts,
        sigma=sigma,
        alpha=alpha,
        norm=bounds.NORMS[law],
    )
