"""Imports: of optional packages, of names on first use, and of your classes by dotted path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from smoothcert.errors import ConfigError


def has_triton() -> bool:
    """Triton comes with PyTorch's CUDA builds for Linux."""
    return find_spec("triton") is not None


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are imported on first use, each from its home below it."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load, lambda: list(sys.modules[package].__all__)


def import_name(path: str, kind: str) -> Any:
    """The object at ``package.module.Name``. The working folder is importable, as with ``python -m``."""
    module_name, _, name = path.rpartition(".")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:  # the user's code may fail in any way while it is imported
        raise ConfigError(
            f"{kind} '{path}': importing '{module_name}' failed with {type(error).__name__}: {error}; "
            f"expected a module that is installed or lies in {here}"
        ) from error
    if not hasattr(module, name):
        raise ConfigError(f"{kind} '{path}': expected '{name}' in {module.__file__ or module_name}, found nothing")
    return getattr(module, name)
