"""Arrays and plain values of a pickle file, read without running code: plain unpickling calls any function it names.

Two allow-lists restrict Python's unpickler: the operations that plain values and arrays need, and the functions by
which NumPy 1 and 2 write arrays, each replaced by one of ours. We use the unpickler written in Python: in the one
written in C a few bytes of a file can make the memo huge, and it cannot refuse a key. Memory stays within a few times
the size of the file: each byte of it is in one array at most.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickletools import genops
from typing import IO, Any, ClassVar

import numpy as np

from smoothcert.errors import DataError

MOST_OPERATIONS = 10_000_000
"""A file of a few arrays has about a hundred; this leaves room for lists with a number per image beside them."""

_NEEDED = """
    PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8
    EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST APPEND APPENDS SETITEM SETITEMS
    EMPTY_DICT DICT BYTEARRAY8 GLOBAL STACK_GLOBAL REDUCE BUILD PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET"""


def read_arrays(path: Path) -> dict[str, Any]:
    """The entries of a pickled dictionary: NumPy arrays of numbers, and plain values. Arrays in lists stay unread."""
    try:
        with path.open("rb") as file:
            _check_operations(file)
            found = _Unpickler(
                file, encoding="latin1"
            ).load()  # keeps NumPy's bytes, which Python 2 wrote as text
            size = file.tell()
        if not isinstance(found, _Dict):
            raise ValueError("no dictionary")
        arrays = {
            id(value): len(value.content) for value in found.values() if isinstance(value, _Array)
        }
        if sum(arrays.values()) > size:  # the same content again and again
            raise ValueError(f"arrays of {sum(arrays.values())} bytes in a file of {size}")
        return {
            name: value.array() if isinstance(value, _Array) else value
            for name, value in found.items()
        }
    except OSError as error:
        raise DataError(f"{path}: expected a readable file: {error.strerror}") from error
    except (
        Exception
    ) as error:  # a damaged file lets any operation meet values that it was not made for
        reason = str(error)[:300] or type(error).__name__
        raise DataError(
            f"{path}: expected a pickled dictionary of NumPy arrays and plain values, found this: {reason}. "
            "Get the file again, or write the arrays with numpy.savez"
        ) from error


def read_array_pickle(path: Path, names: tuple[str, ...]) -> list[np.ndarray]:
    """The arrays of these names from a pickled dictionary."""
    found = read_arrays(path)
    if missing := [name for name in names if not isinstance(found.get(name), np.ndarray)]:
        raise DataError(
            f"{path}: expected the NumPy arrays {' and '.join(names)}, found no array "
            f"{' and no array '.join(missing)}, but the entries {str(sorted(found))[:300]}"
        )
    return [found[name] for name in names]


@dataclass
class _Dtype:
    """Stands for numpy.dtype: its code, and its byte order, set later."""

    code: str
    order: str = "="


@dataclass
class _Array:
    """Stands for numpy.ndarray: filled later or, in protocol 5, at once."""

    content: bytes | str = b""
    kind: _Dtype | None = None
    shape: tuple[int, ...] = ()
    order: Any = "C"
    axes: tuple[int, ...] | None = (
        None  # since NumPy 2.2, for permuted arrays: the order of the axes
    )

    def array(self) -> np.ndarray:
        if self.kind is None:
            raise ValueError("an array without content")
        if not re.fullmatch("[|=<>][biuf][1248]", kind := self.kind.order + self.kind.code):
            raise ValueError(f"an array of type {self.kind.code!r}, which is no plain number")
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        values = np.frombuffer(content, kind)
        if self.axes is not None:
            return values.reshape(self.shape).transpose(self.axes)
        return values.reshape(self.shape, order=self.order)


def _encode(text: str, encoding: str) -> str:
    """How Python 3 writes bytes for Python 2. They stay text: a file could ask to encode one text many times."""
    if encoding != "latin1":
        raise ValueError("text in another encoding than the 'latin1' of NumPy's bytes")
    return text


_CORES = ("numpy.core", "numpy._core")  # NumPy 1 and 2
_FUNCTIONS: dict[str, Any] = {
    "numpy.ndarray": None,  # only ever an argument of _reconstruct
    "numpy.dtype": lambda code, *_: _Dtype(code),
    "_codecs.encode": _encode,
    **{f"{core}.multiarray._reconstruct": lambda *_: _Array() for core in _CORES},
    **{f"{core}.multiarray.scalar": lambda kind, content: _Array(content, kind) for core in _CORES},
    **{f"{core}.numeric._frombuffer": _Array for core in _CORES},
}


class _Dict(dict[str, Any]):
    """Keys can only be text: nested tuples can take for ever to hash."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str | bytes):
            raise ValueError("a dictionary with other keys than text")
        super().__setitem__(key.decode("latin1") if isinstance(key, bytes) else key, value)


def _build(unpickler: Any) -> None:
    """Fill an array or a dtype; Python's own BUILD would set any attribute of any object."""
    state, target = unpickler.stack.pop(), unpickler.stack[-1]
    if isinstance(target, _Dtype):
        target.order = state[1]
    elif isinstance(target, _Array):
        _, target.shape, target.kind, fortran, target.content = state
        target.order = "F" if fortran else "C"
    else:
        raise ValueError(f"the state of an array for a {type(target).__name__}")


class _Unpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BUILD[0]: _build,
        pickle.EMPTY_DICT[0]: lambda unpickler: unpickler.append(_Dict()),
        pickle.DICT[0]: lambda unpickler: (
            unpickler.pop_mark() or unpickler.append(_Dict())
        ),  # empty at first
    }

    def find_class(self, module: str, name: str) -> Any:
        if (path := f"{module}.{name}") not in _FUNCTIONS:
            raise ValueError(
                f"a call of {path}, which no array needs, and which was not carried out"
            )
        return _FUNCTIONS[path]


def _check_operations(file: IO[bytes]) -> None:
    needed = set(_NEEDED.split())
    for count, (operation, _, _) in enumerate(genops(file)):
        if operation.name not in needed:
            raise ValueError(
                f"the operation {operation.name}, which no array needs, and which was not carried out"
            )
        if count == MOST_OPERATIONS:
            raise ValueError(f"more than {MOST_OPERATIONS} operations")
    file.seek(0)
