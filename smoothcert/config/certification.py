"""The settings of CERTIFY and of attacks on what was certified."""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothcert.config.choices import (
    AttackName,
    Kernels,
    NoiseMode,
    Precision,
    check_seed,
    check_sigma,
)
from smoothcert.config.read import check_types
from smoothcert.errors import ConfigError


@dataclass(frozen=True)
class CertifyConfig:
    """All that decides a certificate beside the network and the image. A result store belongs to exactly one.

    >>> from smoothcert import CertifyConfig
    >>> CertifyConfig(sigma=0.5, n=10_000).alpha  # sigma is in units of images with pixels in [0, 1]
    0.001
    >>> CertifyConfig(sigma=128)
    Traceback (most recent call last):
    smoothcert.errors.ConfigError: sigma is in units of the [0, 1] image, ... did you mean 0.5?
    """

    sigma: float
    """noise level; default: the one trained with"""
    n0: int = 100
    """noise samples that select the class"""
    n: int = 100_000
    """fresh noise samples that bound its probability"""
    alpha: float = 0.001
    """failure probability of a certificate"""
    noise: NoiseMode = "exact"
    """Gaussian noise with its exact law; for l1, uniform or Laplace noise; or the literature's
    float noise"""
    seed: int | None = None
    """seed of the noise; default: a hash of weights, data and procedure"""
    radii: tuple[float, ...] | None = None
    """only test these radii, with few samples (0 for clean accuracy)"""
    tolerance: float | None = None
    """stop sampling an input when its radius can grow by no more than this"""
    skip_wrong: bool = False
    """no certificate where the label is already missed"""
    simultaneous: bool = False
    """alpha for the whole set, not for each input"""
    precision: Precision = "auto"
    """of the network's products; auto: float16 on CUDA, float32 on a CPU"""
    kernels: Kernels = "auto"
    """auto: kernels of our own where the network has some; off: PyTorch's alone"""

    def __post_init__(self) -> None:
        check_types(self)
        check_sigma(self.sigma)
        if self.radii is not None:
            if not self.radii:
                raise ConfigError("expected at least one radius to test, found none")
            object.__setattr__(self, "radii", _rising(self.radii))
        check_seed("seed", self.seed)


@dataclass(frozen=True)
class AttackConfig:
    """All that decides the answer to an attacked image beside the network and the image.

    SmoothAdv's evaluation (arXiv:1906.04584, section 4.2) takes T = 20 steps and 1 to 128 noises (Stein: 512).

    >>> from smoothcert import AttackConfig
    >>> AttackConfig(sigma=0.5, radii=(1.0, 0.5), attack="ddn").radii
    (0.5, 1.0)
    """

    sigma: float
    """noise level; default: the one trained with"""
    radii: tuple[float, ...]
    """l2 radii to attack at; 0: the images as they are"""
    attack: AttackName = "pgd"
    """SmoothAdv's PGD or DDN, PGD on its equation 4 (expected), gradient-free by probabilities
    or by hard votes, PGD without noise, or foolbox's"""
    noises: int = 128
    """noises that an attack averages over"""
    steps: int = 20
    """steps of an attack"""
    beta: float = 1.0
    """inverse temperature of the logits that are attacked (SmoothAdv, appendix B)"""
    n: int = 10_000
    """noise samples of PREDICT on the attacked image; as printed 100000"""
    alpha: float = 0.001
    """failure probability of PREDICT"""
    noise: NoiseMode = "exact"
    """noise of PREDICT; see `certify`"""
    seed: int | None = None
    """seed of the noise; default: a hash of weights, data and procedure"""
    precision: Precision = "auto"
    """of the network's products; auto: that of the certificates, if any"""
    kernels: Kernels = "auto"
    """auto: kernels of our own where the network has some; off: PyTorch's alone"""
    as_printed: bool = False
    """the attack as SmoothAdv's text says where the code does otherwise (docs/methods.md)"""

    def __post_init__(self) -> None:
        check_types(self)
        check_sigma(self.sigma)
        object.__setattr__(self, "radii", _rising(self.radii))
        if not self.radii:
            raise ConfigError("an attack needs radii, for example 0.25 0.5, found none")
        if len(set(self.radii)) < len(self.radii):  # the store would wait for rows that it has
            raise ConfigError(f"an attack needs each radius once, found {list(self.radii)}")
        check_seed("seed", self.seed)
        # of one noise, votes less their mean are 0, and every step would be a random one
        least = 2 if self.attack.startswith("stein") else 1
        if self.noises < least or self.steps < 1:
            raise ConfigError(
                f"the attack {self.attack} needs noises >= {least} and steps >= 1, found {self.noises} "
                f"and {self.steps}"
            )
        if not 0 < self.beta < math.inf:
            raise ConfigError(f"an attack needs a beta above 0, found {self.beta}")
        if self.beta != 1 and self.attack in ("stein-hard", "foolbox"):
            raise ConfigError(f"the attack {self.attack} has no temperature: leave beta out")
        if self.as_printed and self.attack == "foolbox":
            raise ConfigError("foolbox's attack is in no paper: leave as_printed out")
        _check_prediction(self.n, self.alpha)
        if self.noise in ("uniform", "laplace"):
            raise ConfigError(
                f"these attacks are about l2 changes, and {self.noise} noise certifies l1: use another noise"
            )


def _check_prediction(n: int, alpha: float) -> None:
    """By PREDICT's two-sided test, n equal answers have the p-value 2^(1 - n), rounded up. Alpha is checked later."""
    if 0 < alpha < 1 and (n < 1 or 2.0 ** (1 - n) >= alpha):
        raise ConfigError(
            f"n = {n} samples cannot answer anything at alpha = {alpha:g}, not even if all agree: PREDICT would always "
            f"abstain, so use n >= {math.floor(2 - math.log2(alpha))}"
        )


def _rising(radii: tuple[float, ...]) -> tuple[float, ...]:
    if any(radius < 0 for radius in radii):
        raise ConfigError(f"radii are distances of at least 0, found {list(radii)}")
    return tuple(sorted(radii))
