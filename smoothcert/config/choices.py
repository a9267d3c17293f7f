"""What a setting may be: one of a few words, a seed, a noise level."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, get_args

from smoothcert.errors import ConfigError, none_of

NoiseMode = Literal["exact", "uniform", "laplace", "float"]
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
TrainingPrecision = Literal["tf32", "float32", "bfloat16"]
OptimizerName = Literal["sgd", "adam"]
Kernels = Literal["auto", "off"]
AttackName = Literal["pgd", "expected", "ddn", "stein", "stein-hard", "vanilla", "foolbox"]
ExecutorName = Literal["local", "ray"]

_LARGEST_SIGMA = 5.0  # papers go to 1 in l2 norm, and to 3.5 in l1

Law = Literal["gaussian", "uniform", "laplace"]
_LAWS: dict[object, Law] = {
    "exact": "gaussian",
    "uniform": "uniform",
    "laplace": "laplace",
    "float": "gaussian",
}


def law_of(mode: object) -> Law:
    """The law of a noise mode. What nobody knows must not be taken for Gaussian noise: there is none by default."""
    if mode not in _LAWS:
        check_choice("noise mode", str(mode), NoiseMode)
    return _LAWS[mode]


def check_choice(what: str, given: str, choices: Any) -> str:
    """The word, if it is one of a Literal's."""
    if given not in get_args(choices):
        raise none_of(what, given, get_args(choices))
    return given


def check_seed(name: str, seed: int | None) -> None:
    """Seeds are of 63 bits and not negative, as the keys that are derived from them: a manifest holds no more."""
    if seed is not None and not 0 <= seed < 2**63:
        raise ConfigError(
            f"{name} must be a whole number from 0 to 2**63 - 1, for example 0, found {seed}"
        )


def check_sigma(sigma: float) -> float:
    """The noise level that a user asks for: grey levels of 255 are often given by mistake.

    What proofs allow is a question of its own (`statistics.bounds`).
    """
    if isinstance(sigma, Real) and 0 < sigma <= _LARGEST_SIGMA:
        return sigma
    if isinstance(sigma, Real) and _LARGEST_SIGMA < sigma <= 255 * _LARGEST_SIGMA:
        raise ConfigError(
            f"sigma is in units of the [0, 1] image, at most {_LARGEST_SIGMA:g}, found {sigma:g}, "
            f"which looks like 8-bit: did you mean {sigma / 255:.2g}?"
        )
    raise ConfigError(
        f"sigma, the standard deviation of the noise, must be above 0 and at most {_LARGEST_SIGMA:g}, "
        f"found {sigma!r}"
    )
