"""Imports: of optional packages, of names on first use, and of your classes by dotted path."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from smoothcert.errors import ConfigError
from smoothcert.files import file_sha256

_IMPORTED: dict[Path, dict[str, str]] = {}
"""The hashes of code that this process runs: an edited file is not what was imported before."""


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
    if path.endswith(".py"):
        raise ConfigError(
            f"{kind} '{path}': expected FILE.py:NAME, found no name: write {path}:NAME"
        )
    module_name, name = _parted(path)
    here = _importable(Path.cwd())
    file = Path(module_name).resolve() if module_name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise ConfigError(
            f"{kind} '{path}': expected a file at {file}, found none; a path is read from the folder in which the "
            "command is given"
        )
    if file is not None:
        _importable(file.parent)
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


def _parted(path: str) -> tuple[str, str]:
    module, _, name = path.rpartition(":" if ":" in path else ".")
    return module, name


def _importable(folder: Path) -> Path:
    if str(folder) not in sys.path and not (folder == Path.cwd() and "" in sys.path):
        sys.path.insert(0, str(folder))
    return folder


class Code(NamedTuple):
    """A file of code, the folder in which its imports begin, and what it was when it was imported."""

    file: Path
    root: Path
    hashes: dict[
        str, str
    ]  # of it and of what it imports from below the root, by their paths from there


def find_code(path: str) -> Code | None:
    """The code that a path for `import_name` leads to; None where there is none."""
    module, _ = _parted(path)
    if module.endswith(".py"):
        file, depth = Path(module).resolve(), 0
    else:
        _importable(Path.cwd())
        try:
            found = find_spec(module)
        except Exception:  # packages that it lies in are imported, and may be anyone's
            found = None
        file = Path((found and found.origin) or "")
        depth = module.count(".") + (file.stem == "__init__")
    if not file.is_file():
        return None
    root = file.parents[depth]
    return Code(file, root, _IMPORTED.get(file) or _hashes(file, root))


def keep_code(code: Code) -> None:
    """Remember what was imported just now; refuse modules of its that came from other files."""
    _IMPORTED.setdefault(code.file, code.hashes)
    for name in code.hashes:
        module = sys.modules.get(
            name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        )
        there, file = getattr(module, "__file__", None), code.root / name
        if file != code.file and there is not None and Path(there) != file:
            raise ConfigError(
                f"{code.file} imports {file}, but {there} is loaded already under the same name: give one of them "
                "another name"
            )


def _hashes(file: Path, root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting, ours = [file], Path(__file__).parent
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name in found:
            continue
        found[name] = file_sha256(path)
        if root.name not in ("site-packages", "dist-packages"):  # which have versions, as we have
            below = (one for one in _imports(path, root) if one.is_relative_to(root))
            waiting += [one for one in below if one.is_file() and not one.is_relative_to(ours)]
    return dict(sorted(found.items()))


def _imports(file: Path, root: Path) -> Iterator[Path]:
    """The files, there or not, that import statements of a file may mean."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):  # it cannot be imported either
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            start, names = root, [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = file.parents[node.level - 1] if node.level else root
            names = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
        else:
            continue
        for name in names:
            for place in accumulate(name.split("."), Path.joinpath, initial=start):
                yield from (place / "__init__.py", Path(f"{place}.py"))


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
