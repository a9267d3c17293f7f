"""One certificate: what the counts of an input prove. Without PyTorch, so stored counts can be re-analysed anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smoothcert.statistics import bounds, shown
from smoothcert.statistics.sequential import Claim

ABSTAIN = -1


@dataclass(frozen=True, eq=False)
class Certificate:
    """CERTIFY's answer (Cohen et al. 2019, section 3.2.2) with the counts that prove it.

    With probability at least 1 - alpha over the noise, the smoothed classifier returns `predict` for every image
    closer than `radius` in `norm`. `predict` is -1 (abstain) when that cannot be claimed for any radius.

    >>> import numpy as np
    >>> from smoothcert.statistics.certificate import from_counts
    >>> selection, estimation = np.array([[3, 97]]), np.array([[10, 990]])
    >>> (certificate,) = from_counts(selection, estimation, sigma=0.5, alpha=0.001, law="gaussian")
    >>> print(certificate)
    class 1, certified l2 radius 0.9890 (sigma 0.5, n0 = 100, n = 1,000, alpha = 0.001, exact noise)
         1  ##############################     990 of 1,000
         0                                      10 of 1,000

    In a notebook it shows itself as the last line of a cell, and `sentence()` says what is guaranteed.
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
    noise: str = "exact"  # the mode of the noise; float noise proves nothing in the strict sense
    image: NDArray[np.generic] | None = field(default=None, repr=False)  # [C, H, W], to be shown

    @property
    def abstained(self) -> bool:
        return self.predict == ABSTAIN

    def sentence(self) -> str:
        """What is guaranteed, in one sentence that a paper can print."""
        return shown.sentence(self)

    def __str__(self) -> str:
        return shown.lines(self)

    def _repr_html_(self) -> str:
        return shown.html(self)


def from_counts(
    counts0: NDArray[np.int64],
    counts: NDArray[np.int64],
    sigma: float,
    alpha: float,
    law: bounds.Law,
    split: float = bounds.DEFAULT_SPLIT,
    slack: float = 0.0,
) -> list[Certificate]:
    """CERTIFY from the class counts [inputs, classes] of the selection and of the (independent) estimation samples.

    The class comes from the selection counts alone (ties: lowest class), the bound from the estimation counts alone.
    `slack` is how far the law of the samples may be from `law`, the noise that the certificate is about.
    """
    totals = counts.sum(1)
    for n0, n in set(zip(counts0.sum(1).tolist(), totals.tolist(), strict=True)):
        bounds.check_samples(n0, n, alpha)
    inputs, selected = np.arange(len(counts)), counts0.argmax(1)
    top, others = counts[inputs, selected], counts.copy()
    others[inputs, selected] = 0
    p_lower = bounds.lower_bound(top, totals, alpha, slack)
    radius = bounds.radius(p_lower, sigma, law)
    multiclass = bounds.multiclass_radius(
        top, others.max(1), totals, alpha, sigma, law, split, slack
    )
    claims = [
        Claim(p, r if p >= 0.5 else None)
        for p, r in zip(p_lower.tolist(), radius.tolist(), strict=True)
    ]
    return [
        from_claim(c0, c, claim, sigma, alpha, law, m)
        for c0, c, claim, m in zip(counts0, counts, claims, multiclass.tolist(), strict=True)
    ]


def from_claim(
    counts0: NDArray[np.int64],
    counts: NDArray[np.int64],
    claim: Claim,
    sigma: float,
    alpha: float,
    law: bounds.Law,
    multiclass_radius: float = math.nan,
) -> Certificate:
    """A certificate of the class that the selection counts name, from the claim that any procedure made about it."""
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


def predicted(counts: NDArray[np.int64], alpha: float) -> int:
    """PREDICT from class counts: the most frequent class, or -1 where it may be the second with more than alpha."""
    second, first = np.argsort(counts, kind="stable")[-2:]
    return int(first) if bounds.top_two_p_value(counts[first], counts[second]) <= alpha else ABSTAIN
