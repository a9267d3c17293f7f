"""Runs that differ only in their seed: mean and standard deviation over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import ConfigError
from smoothcert.published.row import method_settings
from smoothcert.report.measures.analysis import average_certified_radius, certified_accuracy
from smoothcert.report.read.certificates import Certificates

# Entries of a manifest that must agree; the others (seed, weights, device) may differ between seeds and machines.
PROCEDURE = (
    "sigma",
    "n0",
    "n",
    "alpha",
    "noise",
    "dataset",
    "split",
    "data",
    "start",
    "every",
    "max",
    "radii",
)


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation, sqrt(sum (x - mean)^2 / (k - 1)), which is nan for a single value."""

    mean: float
    std: float


@dataclass(frozen=True)
class SeedSummary:
    runs: int
    acr: Spread
    accuracy: tuple[Spread, ...]  # certified accuracy at each radius asked for


def spread(values: ArrayLike) -> Spread:
    x = np.asarray(values, dtype=np.float64)
    return Spread(float(x.mean()), float(x.std(ddof=1)) if len(x) > 1 else float("nan"))


def seed_summary(
    runs: Sequence[Certificates], radii: Sequence[float] = (), rounded: bool = False
) -> SeedSummary:
    """Mean and standard deviation of ACR and certified accuracy over runs of one experiment."""
    if not runs:
        raise ConfigError("a mean over seeds needs at least one run, found none")
    shares = np.array([certified_accuracy(c, list(radii), rounded) for c in runs])  # [runs, radii]
    acr = spread([average_certified_radius(c, rounded) for c in runs])
    return SeedSummary(len(runs), acr, tuple(spread(column) for column in shares.T))


def seed_groups(results: Sequence[Certificates]) -> list[list[int]]:
    """The places of runs that are the same experiment with other seeds; experiments with a single run are left out.

    Same experiment: the same config.yaml but for `seed`, certified by the same procedure on the same inputs.
    """
    groups: dict[str, dict[str, int]] = {}  # experiment -> training seed -> its first run
    for place, c in enumerate(results):
        if c.config is None or c.manifest is None or c.partial:
            continue
        training = {key: value for key, value in c.config.items() if key != "seed"}
        procedure = [c.manifest["identity"].get(key) for key in PROCEDURE]
        experiment = json.dumps([training, procedure], sort_keys=True, default=str)
        groups.setdefault(experiment, {}).setdefault(repr(c.config.get("seed", 0)), place)
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def flat(config: dict[str, Any] | None) -> dict[str, Any]:
    """`{"sigma": 0.5, "method": {"lam": 5}}` -> `{"sigma": 0.5, "method.lam": 5}`, with the method's defaults."""
    rest = {key: value for key, value in (config or {}).items() if key != "method"}
    return rest | {f"method.{key}": value for key, value in method_settings(config).items()}


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
