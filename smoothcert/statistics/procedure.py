"""The procedure by which images are certified, and what it makes of counts: certificates.

Without PyTorch, so that stored counts can be judged anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcert.config import CertifyConfig
from smoothcert.config.choices import law_of
from smoothcert.errors import ConfigError
from smoothcert.statistics import bounds, shown
from smoothcert.statistics.bounds import Array
from smoothcert.statistics.laws import Law, law_named
from smoothcert.statistics.stopping import (
    FixedSize,
    Integers,
    Level,
    RadiusTests,
    RepeatedBounds,
    Stopping,
)

ABSTAIN = -1

SPLIT = 0.9
"""Share of alpha that the multiclass radius spends on the top class; never tuned per input."""


class Claims(NamedTuple):
    """What counts prove of the selected class of each input; `radius` is nan where nothing."""

    p_lower: Array
    radius: Array
    multiclass_radius: Array  # at the same alpha; nan where sampling may have stopped early


@dataclass(frozen=True)
class Procedure:
    """All that turns counts into a certificate. `alpha` is that of one input."""

    law: Law
    sigma: float
    n0: int
    n: int
    alpha: float
    tau: float = 0.0  # total variation distance of a noisy image from the law, at most
    radii: tuple[float, ...] | None = None
    tolerance: float | None = None
    skip_wrong: bool = False
    stopping: Stopping = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, config: CertifyConfig, tau: float = 0.0, inputs: int = 1) -> Procedure:
        """As the settings say, for each of so many inputs. What nothing can prove is refused."""
        alpha = config.alpha / inputs if config.simultaneous else config.alpha
        names = ("sigma", "n0", "n", "radii", "tolerance", "skip_wrong")
        same = {name: getattr(config, name) for name in names}
        return cls(law_named(law_of(config.noise)), alpha=alpha, tau=tau, **same)

    def __post_init__(self) -> None:
        bounds.check_samples(self.n0, self.n, self.alpha)
        object.__setattr__(self, "stopping", self._stopping())

    def _stopping(self) -> Stopping:
        level = Level(self.law, bounds.check_sigma(self.sigma), self.n, self.alpha, self.tau)
        if self.radii is not None and self.tolerance is not None:
            raise ConfigError(
                "radii (test these radii) and tolerance (find a radius) exclude each other: give "
                "one of them"
            )
        if self.radii is not None:
            return RadiusTests(self.radii, level)
        if self.tolerance is not None:
            return RepeatedBounds(self.tolerance, level)
        return FixedSize(level)

    def claims(self, path: Integers, other: Integers) -> Claims:
        """`path` as in stopping.py; `other`: the largest count of any other class at its end."""
        p, radius, _ = self.stopping.judge(path)
        if self.stopping.looks != (self.n,):
            return Claims(p, radius, np.full(len(p), np.nan))
        top = np.maximum(path[:, 0], 0)
        p_a = bounds.lower_bound(top, self.n, SPLIT * self.alpha, self.tau)
        p_b = bounds.upper_bound(other, self.n, (1.0 - SPLIT) * self.alpha, self.tau)
        both = self.law.multiclass_radius(p_a, p_b, self.sigma)
        return Claims(p, radius, np.where(path[:, 0] >= 0, both, np.nan))


@dataclass(frozen=True, eq=False)
class Certificate:
    """CERTIFY's answer (Cohen et al. 2019, section 3.2.2) with the counts that prove it.

    With probability at least 1 - alpha over the noise, the smoothed classifier returns `predict`
    for every image closer than `radius` in `norm`; -1 (abstain) if no radius can be claimed.

    >>> import numpy as np
    >>> from smoothcert.statistics.laws import law_named
    >>> from smoothcert.statistics.procedure import Procedure, certificates
    >>> procedure = Procedure(law_named("gaussian"), sigma=0.5, n0=100, n=1000, alpha=0.001)
    >>> selection, estimation = np.array([[3, 97]]), np.array([[10, 990]])
    >>> (certificate,) = certificates(procedure, selection, estimation, path=np.array([[990]]))
    >>> print(certificate)
    class 1, certified l2 radius 0.9890 (sigma 0.5, n0 = 100, n = 1,000, alpha = 0.001, exact noise)
         1  ##############################     990 of 1,000
         0                                      10 of 1,000

    In a notebook it shows itself as the last line of a cell, and `sentence()` says what is
    guaranteed.
    """

    predict: int
    radius: float
    p_lower: float
    multiclass_radius: float
    """By the two-class bound at the same alpha; may be positive when `predict` abstains."""
    selected: int
    counts0: NDArray[np.int64]
    counts: NDArray[np.int64]
    path: NDArray[np.int64]
    """How often `selected` had been counted at each look at the samples."""
    procedure: Procedure
    noise: str = "exact"
    """The mode of the noise; float noise proves nothing in the strict sense."""
    image: NDArray[np.generic] | None = field(default=None, repr=False)  # [C, H, W], to be shown

    @property
    def sigma(self) -> float:
        return self.procedure.sigma

    @property
    def alpha(self) -> float:
        return self.procedure.alpha

    @property
    def abstained(self) -> bool:
        return self.predict == ABSTAIN

    @property
    def norm(self) -> str:
        return self.procedure.law.norm

    def sentence(self) -> str:
        """What is guaranteed, in one sentence that a paper can print."""
        return shown.sentence(self)

    def __str__(self) -> str:
        return shown.lines(self)

    def _repr_html_(self) -> str:
        return shown.html(self)


def certificates(
    procedure: Procedure, counts0: Integers, counts: Integers, path: Integers
) -> list[Certificate]:
    """From class counts [inputs, classes] of selection and estimation, and the `path` of each.

    The class comes from the selection counts alone (ties: the lowest), the bound from the
    estimation counts alone.
    """
    inputs, selected = np.arange(len(counts)), counts0.argmax(1)
    others = counts.copy()
    others[inputs, selected] = 0
    claims = procedure.claims(path, others.max(1))
    return [
        Certificate(
            predict=ABSTAIN if math.isnan(radius) else int(of),
            radius=0.0 if math.isnan(radius) else radius,
            p_lower=p,
            multiclass_radius=both,
            selected=int(of),
            counts0=counts0[i],
            counts=counts[i],
            path=path[i][path[i] >= 0],
            procedure=procedure,
        )
        for i, of, p, radius, both in zip(
            inputs, selected, *(column.tolist() for column in claims), strict=True
        )
    ]


def predicted(counts: NDArray[np.int64], alpha: float) -> int:
    """PREDICT: the most frequent class; -1 where it may be the second with more than alpha."""
    second, first = np.argsort(counts, kind="stable")[-2:]
    p_value = bounds.top_two_p_value(counts[first], counts[second])
    return int(first) if p_value <= alpha else ABSTAIN
