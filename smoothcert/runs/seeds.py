"""Which noise an experiment draws: the seed that was asked for, or one that nobody chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.keys import derive

# Not those that leave the samples of an input as they are, such as the index set, precision or kernels.
_PROCEDURE = (
    "sigma",
    "n0",
    "n",
    "alpha",
    "noise",
    "radii",
    "tolerance",
    "simultaneous",
    "attack",
    "noises",
    "steps",
)


def noise_seed(seed: int | None, *about: str) -> int:
    """The seed itself, or where none was asked for, a hash of what the experiment is about.

    A fixed default would be known to whoever makes a network, and a network can be made to recognise its samples.
    """
    return derive(0, "noise seed", "", *about) if seed is None else seed


def seed_in(identity: Mapping[str, Any]) -> int | None:
    """The number that keyed the noise of a store; older versions had no other than the seed that was asked for."""
    found: int | None = identity.get("noise_seed", identity.get("seed"))
    return found


def seed_of_store(settings: Mapping[str, Any], weights: str, data: str) -> int:
    """The same command draws the same noise; another model, other data or another procedure draws another.

    The settings are those of a CertifyConfig or an AttackConfig, or the identity of a store that was made with them.
    """
    values = {
        name: value for name in _PROCEDURE if (value := settings.get(name)) not in (None, False)
    }
    if "radii" in values:
        values["radii"] = tuple(map(float, values["radii"]))
    procedure = repr(sorted(values.items()))
    return noise_seed(settings.get("seed"), weights, data, procedure)
