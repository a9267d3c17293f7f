"""Classes of yours by dotted path, with errors that name the path."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from smoothcert.errors import ConfigError


def import_name(path: str, kind: str) -> Any:
    """The object at ``package.module.Name``. The working folder is importable, as with ``python -m``."""
    module_name, _, name = path.rpartition(".")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"could not import {module_name!r} for the {kind} '{path}': {error}") from error
    if not hasattr(module, name):
        raise ConfigError(f"the module {module_name!r} has no '{name}', wanted for the {kind} '{path}'")
    return getattr(module, name)
