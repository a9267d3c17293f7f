"""What all images of one shape share when they are certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcert.config import CertifyConfig, NoiseMode
from smoothcert.config.choices import law_of
from smoothcert.statistics import bounds
from smoothcert.statistics.sequential import Procedure, procedure


@dataclass(frozen=True)
class Plan:
    """How images of one size are certified: samples, level, stopping rule, and how exact the law of the noise is."""

    sigma: float
    noise: NoiseMode
    n0: int
    n: int
    alpha: float
    values: int
    slack: float  # how far the law of the samples may be from `law`, in total variation
    law: bounds.Law
    test: Procedure | None  # None: a number of samples fixed in advance

    def describe(self) -> dict[str, Any]:
        """What decides the outcome, for a manifest."""
        return {"procedure": "fixed"} if self.test is None else self.test.describe()


def check_settings(config: CertifyConfig) -> None:
    """Refuse what no network and no data could make right, before any is loaded."""
    bounds.check_samples(config.n0, config.n, config.alpha)
    procedure(
        config.n,
        config.alpha,
        config.sigma,
        radii=config.radii,
        tolerance=config.tolerance,
        law=law_of(config.noise),
    )
