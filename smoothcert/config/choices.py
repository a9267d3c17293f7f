"""What a setting may be, where it is one of a few words."""

from __future__ import annotations

from typing import Any, Literal, get_args

from smoothcert.errors import ConfigError, none_of

NoiseMode = Literal["exact", "uniform", "laplace", "float"]
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
TrainingPrecision = Literal["tf32", "float32", "bfloat16"]
OptimizerName = Literal["sgd", "adam"]
Kernels = Literal["auto", "off"]
AttackName = Literal["pgd", "expected", "ddn", "stein", "stein-hard", "vanilla", "foolbox"]
ExecutorName = Literal["local", "ray"]


_GONE = {
    "quantised": "the noise 'quantised' is gone: use 'exact', the same noise with a known law, which is the default. "
    "Results made with 'quantised' are still read, reported and analysed again, but not resumed: certify under "
    "another --name",
}
"""Words of older versions, and what to do instead."""


def check_choice(what: str, given: str, choices: Any) -> str:
    """The word, if it is one of a Literal's."""
    if given in _GONE:
        raise ConfigError(_GONE[given])
    if given not in get_args(choices):
        raise none_of(what, given, get_args(choices))
    return given
