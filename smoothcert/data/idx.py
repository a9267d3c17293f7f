"""The IDX format of MNIST: two zero bytes, a type byte, the number of dimensions, the sizes, the values."""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np

from smoothcert.errors import DataError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_AGAIN = "delete the file and get it again"


def read_idx(path: Path) -> np.ndarray:
    """The array of an IDX file, plain or gzipped; anything but a whole and exact file is a DataError."""
    data, damage = _content(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise DataError(
            f"{path}: expected an IDX file (first bytes 00 00, then a type), "
            f"found {len(data)} bytes that begin {data[:4].hex(' ') or 'nowhere'}{damage}: {_AGAIN}"
        )
    dtype, start = np.dtype(_TYPES[data[2]]), 4 + 4 * data[3]
    if len(data) < start:
        raise DataError(
            f"{path}: expected {start} bytes of header, found {len(data)}{damage}: {_AGAIN}"
        )
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", data[3], 4))
    expected = start + prod(shape) * dtype.itemsize
    if len(data) != expected or damage:
        raise DataError(
            f"{path}: expected {expected} bytes for an array of shape {list(shape)}, "
            f"found {len(data)}{damage}: {_AGAIN}"
        )
    # a bytearray underneath, so that the array is writable as torch.from_numpy wants it
    return (
        np.frombuffer(data, dtype, offset=start)
        .reshape(shape)
        .astype(dtype.newbyteorder("="), copy=False)
    )


def write_idx(path: Path, array: np.ndarray) -> None:
    """Write `array` as IDX, gzipped if the name ends in .gz; the same array always gives the same bytes."""
    code = next(
        (c for c, dtype in _TYPES.items() if np.dtype(dtype) == array.dtype.newbyteorder(">")), None
    )
    if code is None:
        raise DataError(
            f"{path}: IDX holds {', '.join(np.dtype(t).name for t in _TYPES.values())}; found {array.dtype}"
        )
    header = bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    data = header + array.astype(_TYPES[code]).tobytes()
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)


def _content(path: Path) -> tuple[bytearray, str]:
    """The bytes of the file, unzipped if gzip, and what is wrong with the gzip stream, if anything."""
    data = bytearray()
    try:
        with path.open("rb") as raw:
            # by content, not by name: some browsers unzip a .gz and keep its name
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if zipped else raw as stream:
                while chunk := stream.read1(1 << 20):
                    data += chunk
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return data, f", where the gzip stream breaks off ({error})"
    except OSError as error:
        raise DataError(f"{path}: expected a readable IDX file: {error.strerror}") from error
    return data, ""
