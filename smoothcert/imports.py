"""Imports: of optional packages, of names on first use, and of your classes by dotted path."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from smoothcert.errors import ConfigError
from smoothcert.files import file_sha256


def has_triton() -> bool:
    """Triton comes with PyTorch's CUDA builds for Linux."""
    return find_spec("triton") is not None


def lazy(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are imported on first use, each from its home below it."""

    def load(name: str) -> Any:
        if name not in homes:
            near = get_close_matches(name, homes, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise AttributeError(f"module '{package}' has no attribute '{name}'{hint}")
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
    for folder in (here, str(file.parent) if file else here):
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
    name = _module_name(file)
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


def _module_name(file: Path) -> str:
    return f"smoothcert_file_{sha256(str(file).encode()).hexdigest()[:16]}_{file.stem}"


class Code(NamedTuple):
    """Code of yours: SHA-256 of its file, and of those that it imports from below `root`, by their paths from there."""

    root: Path
    hashes: dict[str, str]


_FOUND: dict[str, Code] = {}
"""What each module was when it was looked for: once it is imported, that is what runs."""


def find_code(path: str) -> Code | None:
    """The code that a path for `import_name` leads to; None where there is none."""
    module = path.rpartition(":" if ":" in path else ".")[0]
    file, depth, loaded = Path(module).resolve(), 0, module
    if module.endswith(".py"):
        loaded = _module_name(file)
    else:
        if (here := os.getcwd()) not in sys.path:
            sys.path.insert(0, here)
        try:
            spec = find_spec(module)
        except Exception:  # the packages that it lies in are imported, and may fail in any way
            spec = None
        file = Path((spec and spec.origin) or "")
        depth = module.count(".") + (file.stem == "__init__")
    if not file.is_file():
        return None
    if loaded not in sys.modules or loaded not in _FOUND:
        _FOUND[loaded] = Code(file.parents[depth], _hashes(file, file.parents[depth]))
    return _FOUND[loaded]


def _hashes(main: Path, root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting, ours = [main], Path(__file__).parent
    for file in waiting:
        name = file.relative_to(root).as_posix()
        module = sys.modules.get(
            name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        )
        there = getattr(module, "__file__", None) or file
        if file != main and Path(there) != file:
            raise ConfigError(
                f"{main} imports {file}, but {there} is loaded under that name already: rename one of them"
            )
        found[name] = file_sha256(file)
        if root.name not in ("site-packages", "dist-packages"):  # they have versions, as we have
            below = {one for one in _imports(file, root) if root in one.parents and one.is_file()}
            waiting += [
                one for one in sorted(below) if ours not in one.parents and one not in waiting
            ]
    return dict(sorted(found.items()))


def _imports(file: Path, root: Path) -> Iterator[Path]:
    """The files, there or not, that import statements may mean."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):  # it cannot be imported either
        return
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            level, above = getattr(node, "level", 0), getattr(node, "module", None)
            start = file.parents[level - 1] if level else root
            for alias in node.names:
                names = f"{above}.{alias.name}" if above else alias.name
                for place in accumulate(names.split("."), Path.joinpath, initial=start):
                    yield from (place / "__init__.py", Path(f"{place}.py"))
