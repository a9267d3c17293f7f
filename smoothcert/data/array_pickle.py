"""Arrays of a pickle file, without unpickling it: unpickling calls whatever function the file names.

The standard library only cuts the file into its operations here (`pickletools`, which runs nothing). Those that plain
values and arrays need are carried out below; of the functions that a file may name, the few by which NumPy 1 and 2
write arrays are stood in for by our own, and everything else is refused by name. Memory stays within a few times the
size of the file: what is read is kept once, and an array is made of it only when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickletools import genops
from typing import IO, Any

import numpy as np

from smoothcert.errors import DataError

MOST_OPERATIONS = 10_000_000
"""A file of a few arrays has about a hundred; this leaves room for lists of a number an image beside them."""

_LITERALS = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}


def read_array_pickle(path: Path, names: tuple[str, ...]) -> list[np.ndarray]:
    """The arrays of these names from a pickled dictionary."""
    try:
        with path.open("rb") as file:
            found = _read(file)
        missing = [name for name in names if not isinstance(found.get(name), _Array)]
        if missing:
            raise _Unusable(f"no array {' and no array '.join(missing)}, but the entries {sorted(found)}")
        return [found[name].array() for name in names]
    except OSError as error:
        raise DataError(f"{path}: expected a readable file: {error.strerror}") from error
    # a damaged file can go wrong in every way in which an operation meets values that it was not made for
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
        reason = str(error)[:300] or type(error).__name__
        raise DataError(
            f"{path}: expected a pickled dictionary of the NumPy arrays {' and '.join(names)}, found this: {reason}. "
            "Get the file again, or write the arrays with numpy.savez"
        ) from error


class _Unusable(ValueError):
    """What a file holds instead of arrays."""


@dataclass
class _Kind:
    """numpy.dtype, as pickled: its code, then by `build` its byte order."""

    code: str
    order: str = "="

    def build(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        if not (re.fullmatch("[|=<>]", self.order) and re.fullmatch("[biuf][1248]", self.code)):
            raise _Unusable(f"an array of type {self.code!r}, which is no plain number")
        return np.dtype(self.order + self.code)


@dataclass
class _Array:
    """numpy.ndarray, as pickled: empty, then filled by `build`; or, in protocol 5, all at once."""

    content: bytes | bytearray | str = b""
    kind: _Kind | None = None
    shape: tuple[int, ...] = ()
    order: Any = "C"
    axes: tuple[int, ...] | None = None  # since NumPy 2.2, for permuted ones: how those of the content were turned

    def build(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.kind, fortran, self.content = state
        self.order = "F" if fortran else "C"

    def array(self) -> np.ndarray:
        if self.kind is None:
            raise _Unusable("an array without content")
        # bytes are written as text by Python 2, and by Python 3 in the protocols that Python 2 can read
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        values = np.frombuffer(content, self.kind.dtype())
        if self.axes is not None:
            return values.reshape(self.shape).transpose(self.axes)
        return values.reshape(self.shape, order=self.order)


def _encode(text: str, encoding: str) -> str:
    if encoding != "latin1":
        raise _Unusable("text in another encoding than the 'latin1' of NumPy's bytes")
    return text


_CORES = ("numpy.core", "numpy._core")  # NumPy 1 and 2
_FUNCTIONS: Mapping[str, Any] = {
    "numpy.ndarray": None,  # only ever an argument of _reconstruct
    "numpy.dtype": lambda code, *_: _Kind(code),
    "_codecs.encode": _encode,
    **{f"{core}.multiarray._reconstruct": lambda *_: _Array() for core in _CORES},
    **{f"{core}.multiarray.scalar": lambda kind, content: _Array(content, kind) for core in _CORES},
    **{f"{core}.numeric._frombuffer": _Array for core in _CORES},
}


def _function(module: str, name: str) -> Any:
    if (path := ".".join((module, name))) not in _FUNCTIONS:
        raise _Unusable(f"a call of {path}, which no array needs, and which was not carried out")
    return _FUNCTIONS[path]


def _call(function: Any, arguments: Any) -> Any:
    """`function` is one of _FUNCTIONS, since nothing else that gets onto the stack can be called."""
    if not isinstance(arguments, tuple):  # a long text would be taken apart into its letters
        raise _Unusable("a call without a tuple of arguments")
    return function(*arguments)


def _dict(values: list[Any]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in values[::2]):  # nested tuples can take for ever to hash
        raise _Unusable("a dictionary with other keys than text")
    return dict(zip(values[::2], values[1::2], strict=True))


def _read(file: IO[bytes]) -> dict[str, Any]:
    """The stack machine of the pickle format, as far as a dictionary of arrays needs it."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}  # the C unpickler's is an array, which a few bytes can make as large as they like

    def take(count: int | None = None) -> list[Any]:
        """The last values of the stack: `count` of them, or all above the last mark."""
        place = marks.pop() if count is None else len(stack) - count
        values = stack[place:]
        del stack[place:]
        return values

    argument: Any
    for count, (operation, argument, _) in enumerate(genops(file)):
        if count == MOST_OPERATIONS:
            raise _Unusable(f"more than {MOST_OPERATIONS} operations")
        match operation.name:
            case "PROTO" | "FRAME":
                pass
            case name if name in _LITERALS:
                stack.append(argument)
            case name if name in _CONSTANTS:
                stack.append(_CONSTANTS[name]())
            case "MARK":
                marks.append(len(stack))
            case "TUPLE":
                stack.append(tuple(take()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                stack.append(tuple(take(int(name[-1]))))
            case "LIST":
                stack.append(take())
            case "APPEND" | "APPENDS" as name:
                values = take(1 if name == "APPEND" else None)
                stack[-1].extend(values)
            case "DICT":
                stack.append(_dict(take()))
            case "SETITEM" | "SETITEMS" as name:
                values = take(2 if name == "SETITEM" else None)
                stack[-1].update(_dict(values))
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(_function(*argument.split(" ")))
            case "STACK_GLOBAL":
                stack.append(_function(*take(2)))
            case "REDUCE":
                stack.append(_call(*take(2)))
            case "BUILD":
                [state] = take(1)
                stack[-1].build(state)
            case "STOP":
                break
            case name:
                raise _Unusable(f"the operation {name}, which no array needs, and which was not carried out")
    if len(stack) != 1 or not isinstance(stack[0], dict):
        raise _Unusable("no dictionary")
    return stack[0]
