"""What a setting is: a dataclass field with its help, from which its command-line option is derived."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from numbers import Real
from typing import Any

from smoothcert.config.choices import NoiseMode
from smoothcert.errors import ConfigError

N0, N, ALPHA = 100, 100_000, 0.001
"""Samples of the two stages and failure probability of the field's tables."""

NOISE: NoiseMode = "exact"

_LARGEST_SIGMA = 5.0  # papers go to 1 in l2 norm, and to 3.5 in l1

KERNELS_HELP = "auto: kernels of our own where the network has some; off: PyTorch's alone"


def setting(text: str, *, flag: str | None = None, nested: bool = False, **default: Any) -> Any:
    """A dataclass field with its one line of help, and its option where that has another name than the field.

    A `nested` field is a dataclass that the owner makes of a mapping by itself.
    """
    return field(metadata={"help": text, "flag": flag, "nested": nested}, **default)


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


def as_options(kind: type[Any], values: Mapping[str, Any]) -> list[str]:
    """The command-line words that ask for these settings; one that is None, off or not named needs none."""
    words: list[str] = []
    for entry in settings_of(kind):
        value = values.get(entry.name)
        if value is not None and value is not False:
            parts = () if value is True else value if isinstance(value, tuple | list) else (value,)
            words += [option_of(entry), *map(str, parts)]
    return words


def settings_of(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields that are options of a command: those made by `setting`."""
    return [entry for entry in dataclasses.fields(kind) if "help" in entry.metadata]


def option_of(entry: dataclasses.Field[Any]) -> str:
    """``--skip-wrong`` of the field `skip_wrong`."""
    return "--" + (entry.metadata.get("flag") or entry.name).replace("_", "-")
