"""The published training methods, one file each: batch and network in, loss out.

A method must not step an optimiser, choose a device, or know of run folders and other processes. Importing this package
does not import PyTorch; a method's own file does.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smoothcert.config import TrainConfig, checked
from smoothcert.errors import ConfigError, unknown_name
from smoothcert.imports import import_name

if TYPE_CHECKING:
    from smoothcert.methods.base import Method

METHODS = {
    "gaussian": "smoothcert.methods.gaussian.Gaussian",
    "stability": "smoothcert.methods.stability.Stability",
    "smoothadv": "smoothcert.methods.smoothadv.SmoothAdv",
    "macer": "smoothcert.methods.macer.Macer",
    "consistency": "smoothcert.methods.consistency.Consistency",
    "smoothmix": "smoothcert.methods.smoothmix.SmoothMix",
    "catrs": "smoothcert.methods.catrs.CatRs",
    "sun": "smoothcert.methods.sun.Sun",
}
"""Those that train a classifier."""

DENOISING = {"denoiser": "smoothcert.methods.denoiser.Denoiser"}
"""Those that train a denoiser."""


def method_class(name: str) -> type[Method]:
    """The class behind a method's name, or behind a dotted path of yours."""
    from smoothcert.methods.base import Method

    known = {**METHODS, **DENOISING}
    if name not in known and "." not in name:
        raise unknown_name("method", name, known)
    found = import_name(known.get(name, name), "method")
    if not (
        inspect.isclass(found) and issubclass(found, Method) and dataclasses.is_dataclass(found)
    ):
        raise ConfigError(
            f"the method '{name}' must be a dataclass derived from smoothcert.Method, found {found!r}"
        )
    return found


def build_method(settings: Mapping[str, Any]) -> Method:
    """A method from ``{"name": ..., hyperparameter: value, ...}``; misspelt hyperparameters are refused."""
    name = settings.get("name")
    if not isinstance(name, str):
        raise ConfigError(
            f"a method is given as {{name: ..., hyperparameters}}, found {dict(settings)!r}"
        )
    values, kind = (
        {key: value for key, value in settings.items() if key != "name"},
        method_class(name),
    )
    if values.get("as_printed") and "as_printed" not in kind.__dataclass_fields__:
        raise ConfigError(
            f"as_printed is for methods whose paper was compared with its authors' code, and "
            f"{name} is none of them: leave it out"
        )
    return checked(kind, values, f"hyperparameter of the method {name}")


def resolved(config: TrainConfig, method: Method) -> TrainConfig:
    """The configuration with the method's defaults written out, so that later versions cannot change its meaning."""
    return dataclasses.replace(
        config, method={"name": config.method["name"], **dataclasses.asdict(method)}
    )
