"""What a setting may be, where it is one of a few words."""

from __future__ import annotations

from typing import Any, Literal, get_args

from smoothcert.errors import none_of

NoiseMode = Literal["exact", "uniform", "laplace", "float"]
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
TrainingPrecision = Literal["tf32", "float32", "bfloat16"]
OptimizerName = Literal["sgd", "adam"]
Kernels = Literal["auto", "off"]
AttackName = Literal["pgd", "expected", "ddn", "stein", "stein-hard", "vanilla", "foolbox"]
ExecutorName = Literal["local", "ray"]

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
