"""The laws of noise: how each is drawn, and what probabilities under it prove.

A law is described here for variance 1; sigma scales it. To add one, add a class here, and the
probability that its radii need to runs/formulas.py, which proves all certificates a second time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from smoothcert.errors import ConfigError, none_of
from smoothcert.statistics.bounds import CAUTION, Array, check_sigma

_HALF = Decimal("0.5")
_PI = Decimal("3.141592653589793238462643383279502884197169399375105820974944592307816406286209")
_SQRT2 = Decimal("1.41421356237309504880168872420969807856967187537694807317667973799073247846")
_SQRT12 = Decimal("3.46410161513775458705489268301174473388561050762076125611161395890386603382")


class Law(ABC):
    """Independent, symmetric noise on each value of an image."""

    name: str
    norm: str  # of the radii

    @abstractmethod
    def distribution(self, x: Decimal) -> Decimal:
        """F(x) of noise of variance 1 for x >= 0, to 57 digits: what is drawn (noise/)."""

    @abstractmethod
    def unit_radius(self, p: Array) -> Array:
        """The radius that p > 1/2 proves for its class, at sigma = 1."""

    @abstractmethod
    def rest(self, radius: Array) -> Array:
        """1 - p, where p is what a class needs for the radius, at sigma = 1."""

    @abstractmethod
    def unit_multiclass_radius(self, p_a: Array, p_b: Array) -> Array:
        """The radius of a class with p_a at least where no other has more than p_b < p_a."""

    def __reduce__(self) -> tuple[object, ...]:
        return law_named, (self.name,)  # one object of each law in a process

    def radius(self, p: ArrayLike, sigma: float) -> Array:
        """The certified radius of a class of probability p, rounded down; 0 up to p = 1/2."""
        clipped = np.clip(np.asarray(p, dtype=np.float64), 0.5, 1.0)
        with np.errstate(divide="ignore"):
            r = check_sigma(sigma) * self.unit_radius(clipped)
        return np.where(clipped > 0.5, r * (1.0 - CAUTION), 0.0)

    def probability(self, radius: ArrayLike, sigma: float) -> Array:
        """The inverse, rounded up: a class whose p exceeds it is certified at the radius."""
        r = np.asarray(radius, dtype=np.float64)
        if not np.all(r >= 0):
            raise ConfigError(f"a radius is a distance, at least 0, found {radius!r}")
        # by the complement, whose relative accuracy survives where p is close to 1
        rest = self.rest(r / check_sigma(sigma)) * (1.0 - CAUTION) - CAUTION**2
        return np.asarray(np.nextafter(1.0 - np.maximum(rest, 0.0), 2.0))

    def multiclass_radius(self, p_a: Array, p_b: Array, sigma: float) -> Array:
        """The radius by bounds of the two top classes, rounded down; 0 where not positive."""
        p_b = np.minimum(p_b, 1.0 - p_a)
        with np.errstate(invalid="ignore", divide="ignore"):
            r = check_sigma(sigma) * self.unit_multiclass_radius(p_a, p_b)
        # absolute caution too: a difference of nearly equal numbers cancels leading digits
        cautious = np.maximum(r * (1.0 - CAUTION) - sigma * CAUTION, 0.0)
        return np.where(p_a > p_b, cautious, 0.0)


class Gaussian(Law):
    """Cohen et al. (arXiv:1902.02918): l2 radius sigma Phi^-1(p), two-class sigma/2 (...)."""

    name, norm = "gaussian", "l2"

    def distribution(self, x: Decimal) -> Decimal:
        """1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + ...): all positive, so nothing cancels."""
        if x > 17:
            return Decimal(1)  # up to 5e-65
        square, term, k = x * x, x * (-x * x / 2).exp() / (2 * _PI).sqrt(), 1
        total = _HALF
        while term > Decimal("1e-60") or square > k:  # terms grow until k reaches x^2
            total += term
            k += 2
            term = term * square / k
        return min(total, Decimal(1))

    def unit_radius(self, p: Array) -> Array:
        return np.asarray(ndtri(p))

    def rest(self, radius: Array) -> Array:
        return np.asarray(ndtr(-radius))

    def unit_multiclass_radius(self, p_a: Array, p_b: Array) -> Array:
        return np.asarray(0.5 * (ndtri(p_a) - ndtri(p_b)))


class Uniform(Law):
    """On [-w, w] with w = sqrt(3) sigma (Lee et al., arXiv:1906.04948): l1 radius 2 w (p - 1/2).

    Moving by r changes any probability by r / 2w at most.
    """

    name, norm = "uniform", "l1"

    def distribution(self, x: Decimal) -> Decimal:
        return min(_HALF + x / _SQRT12, Decimal(1))

    def unit_radius(self, p: Array) -> Array:
        return np.asarray(np.sqrt(12.0) * (p - 0.5))

    def rest(self, radius: Array) -> Array:
        return np.asarray(np.maximum(0.5 - radius / np.sqrt(12.0), 0.0) - CAUTION)

    def unit_multiclass_radius(self, p_a: Array, p_b: Array) -> Array:
        return np.asarray(np.sqrt(3.0) * (p_a - p_b))


class Laplace(Law):
    """Of scale b = sigma/sqrt(2) (Teng et al. 2020): l1 radius -b ln(2 (1 - p)).

    Moving by r changes any probability, and its complement, by a factor e^(r/b) at most.
    """

    name, norm = "laplace", "l1"

    def distribution(self, x: Decimal) -> Decimal:
        return 1 - (-x * _SQRT2).exp() / 2

    def unit_radius(self, p: Array) -> Array:
        return np.asarray(-np.sqrt(0.5) * np.log1p(1.0 - 2.0 * p))

    def rest(self, radius: Array) -> Array:
        return np.asarray(0.5 * np.exp(-np.sqrt(2.0) * radius))

    def unit_multiclass_radius(self, p_a: Array, p_b: Array) -> Array:
        ratio = 0.5 * np.log(p_a / p_b)
        return np.asarray(np.sqrt(0.5) * np.maximum(ratio, -np.log1p(p_b - p_a)))


LAWS: dict[str, Law] = {law.name: law for law in (Gaussian(), Uniform(), Laplace())}


def law_named(name: str) -> Law:
    """There is no default: what nobody knows must not be taken for Gaussian noise."""
    if name not in LAWS:
        raise none_of("the noise", name, LAWS)
    return LAWS[name]
