"""One certificate: what the counts of an input prove. NumPy only, so stored counts can be judged again anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert import bounds

ABSTAIN = -1


@dataclass(frozen=True, eq=False)
class Certificate:
    """CERTIFY's answer (Cohen et al. 2019, section 3.2.2) with the counts that prove it.

    With probability at least 1 - alpha over the noise, the smoothed classifier returns `predict` for every image
    closer than `radius` in l2 norm. `predict` is -1 (abstain) when that cannot be claimed for any radius.
    """

    predict: int
    radius: float
    p_lower: float
    multiclass_radius: float
    """Radius of `selected` by the two-class bound at the same alpha; may be positive when `predict` abstains."""
    selected: int
    counts0: NDArray[np.int64]
    counts: NDArray[np.int64]
    sigma: float
    alpha: float

    @property
    def abstained(self) -> bool:
        return self.predict == ABSTAIN


def from_counts(
    counts0: NDArray[np.int64],
    counts: NDArray[np.int64],
    sigma: float,
    alpha: float,
    split: float = bounds.DEFAULT_SPLIT,
) -> Certificate:
    """CERTIFY from the class counts of the selection and of the (independent) estimation samples.

    The class comes from the selection counts alone (ties: lowest class), the bound from the estimation counts alone.
    """
    n = int(counts.sum())
    bounds.check_samples(int(counts0.sum()), n, alpha)
    selected = int(np.argmax(counts0))
    p_lower = float(bounds.lower_bound(counts[selected], n, alpha))
    other = int(np.delete(counts, selected).max(initial=0))
    certified = p_lower >= 0.5
    return Certificate(
        predict=selected if certified else ABSTAIN,
        radius=float(bounds.radius(p_lower, sigma)) if certified else 0.0,
        p_lower=p_lower,
        multiclass_radius=float(bounds.multiclass_radius(counts[selected], other, n, alpha, sigma, split)),
        selected=selected,
        counts0=counts0,
        counts=counts,
        sigma=sigma,
        alpha=alpha,
    )
