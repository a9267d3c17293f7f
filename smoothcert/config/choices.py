"""What a setting may be, where it is one of a few words."""

from __future__ import annotations

from typing import Any, Literal, get_args

from smoothcert.errors import unknown_name

NoiseMode = Literal["quantised", "exact", "float", "uniform", "laplace"]
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
TrainingPrecision = Literal["tf32", "float32", "bfloat16"]
Kernels = Literal["auto", "off"]
AttackName = Literal["pgd", "ddn", "stein", "vanilla", "foolbox"]


def check_choice(what: str, given: str, choices: Any) -> None:
    """Refuse a word that is none of a Literal's, and offer the nearest."""
    if given not in get_args(choices):
        raise unknown_name(what, given, get_args(choices))
