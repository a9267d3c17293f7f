"""Imports: of optional packages, of names on first use, and of your classes by dotted path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from smoothcert.errors import ConfigError


def has_triton() -> bool:
    """Triton comes with PyTorch's CUDA builds for Linux."""
    return find_spec("triton") is not None


def lazy(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are imported on first use, each from its home below it."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load, lambda: list(sys.modules[package].__all__)


def import_name(path: str, kind: str) -> Any:
    """The object at ``package.module.Name``, ``package.module:Name`` or ``folder/file.py:Name``.

    The working folder is importable, as with ``python -m``, and so is the folder of a file.
    """
    module_name, colon, name = path.rpartition(":")
    if not colon:
        module_name, _, name = path.rpartition(".")
    if not colon and path.endswith(".py"):
        raise ConfigError(
            f"{kind} '{path}': expected FILE.py:NAME, found no name: write {path}:NAME"
        )
    here = os.getcwd()
    file = Path(module_name).resolve() if module_name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise ConfigError(
            f"{kind} '{path}': expected a file at {file}, found none; a path is read from the folder in which the "
            "command is given"
        )
    for folder in {here, str(file.parent) if file else here}:
        if folder not in sys.path and not (folder == here and "" in sys.path):
            sys.path.insert(0, folder)
    try:
        module = _import_file(file) if file else import_module(module_name)
    except Exception as error:  # the user's code may fail in any way while it is imported
        raise ConfigError(
            f"{kind} '{path}': importing '{module_name}' failed with {type(error).__name__}: {error}; "
            f"expected a module that is installed or lies in {here}"
        ) from error
    if not hasattr(module, name):
        raise ConfigError(
            f"{kind} '{path}': expected '{name}' in {module.__file__ or module_name}, found nothing"
        )
    return getattr(module, name)


def _import_file(file: Path) -> ModuleType:
    """A file as a module, under a name that no other file has; once, so that its classes stay the same ones."""
    name = f"smoothcert_file_{sha256(str(file).encode()).hexdigest()[:16]}_{file.stem}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
