"""Which noise an experiment draws: the seed that was asked for, or one that nobody chose."""

from __future__ import annotations

from torch import nn

from smoothcert.config import AttackConfig, CertifyConfig
from smoothcert.errors import ModelError
from smoothcert.keys import derive
from smoothcert.models.weights import weights_hash

# Not those that leave the samples of an input as they are, such as the index set, precision or kernels.
_PROCEDURE = ("sigma", "n0", "n", "alpha", "noise", "radii", "tolerance", "simultaneous", "attack", "noises", "steps")


def noise_seed(seed: int | None, beacon: str | None, *about: str) -> int:
    """The seed itself, or where none was asked for, a hash of what the experiment is about. A beacon is mixed into it.

    A fixed default would be known to whoever makes a network, and a network can be made to recognise its samples.
    """
    if seed is not None and beacon is None:
        return seed
    return derive(0 if seed is None else seed, "noise seed", beacon or "", *(about if seed is None else ()))


def seed_of_store(config: CertifyConfig | AttackConfig, weights: str, data: str) -> int:
    """The same command draws the same noise; another model, other data or another procedure draws another."""
    settings = {name: getattr(config, name) for name in _PROCEDURE if hasattr(config, name)}
    return noise_seed(config.seed, getattr(config, "beacon", None), weights, data, repr(sorted(settings.items())))


def weights_name(model: nn.Module) -> str:
    """The hash of the weights; empty for a network with state that is not in tensors."""
    try:
        return weights_hash(model)
    except ModelError:
        return ""
