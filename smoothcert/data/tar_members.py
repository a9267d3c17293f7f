"""The members of a tar file by its headers alone: names, and where their contents lie. Nothing is unpacked.

Read here are the formats that programs write today: ustar, GNU's (long names) and pax (long names and sizes). Python's
tarfile takes three times as long, and takes a file that was cut off between two members for a shorter one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from smoothcert.errors import DataError

_BLOCK = 512
_PLAIN, _LINKS, _FOLDER, _LONG_NAME, _PAX = (b"0", b"\0", b"7"), (b"1", b"2"), b"5", b"L", b"x"
_PASSED_OVER = (_FOLDER, b"K", b"g")  # long names of links, and remarks on the whole file
_LONGEST = 1_000_000  # bytes of a long name or of pax records
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_RECORD = re.compile(rb"(\d{1,9}) ([^=]+)=")
_SIZE = re.compile(
    rb"\d{1,18}"
)  # Python reads longer numbers too, and from 4301 digits on refuses them


class Member(NamedTuple):
    name: str
    offset: int  # of its contents in the tar file
    size: int
    content: bytes | None  # of a small one, at most 512 bytes


def members(path: Path) -> Iterator[Member]:
    """The plain files of a tar file, in their order. A file that is damaged or cut off is refused."""
    try:
        with path.open("rb", buffering=0) as file:
            yield from _members(file, path)
    except OSError as error:
        raise DataError(f"{path}: expected a readable tar file ({error.strerror})") from error


def _members(file: BinaryIO, path: Path) -> Iterator[Member]:
    begin = file.read(_BLOCK)
    if kinds := [kind for mark, kind in _COMPRESSED.items() if begin.startswith(mark)]:
        raise DataError(
            f"{path}: expected a tar file that is not compressed, found {kinds[0]}: pictures are read from anywhere "
            "in it, so decompress it first; pictures themselves hardly shrink"
        )
    end, place, renamed = file.seek(0, 2), 0, dict[str, bytes]()
    while True:
        file.seek(place)
        block = file.read(2 * _BLOCK)  # a header, and the start of what it is about
        header = block[:_BLOCK]
        if len(header) < _BLOCK:
            raise _cut_off(path, f"no end mark after {place} bytes")
        if header[0] == 0 and not any(header):
            return _check_rest(file, path, place, end)
        size, kind, offset = _size(header, path, place), header[156:157], place + _BLOCK
        if kind not in (_LONG_NAME, _PAX):
            size = int(renamed.get("size", size))
        if offset + size > end:
            raise _cut_off(
                path,
                f"the member at byte {place} has {size} bytes, of which {end - offset} are there",
            )
        place = offset + -(-size // _BLOCK) * _BLOCK
        if kind in (_LONG_NAME, _PAX):
            if size > _LONGEST:
                raise _damaged(path, offset - _BLOCK, f"a name of {size} bytes")
            file.seek(offset)
            content = file.read(size)
            renamed |= (
                {"path": content.rstrip(b"\0")}
                if kind == _LONG_NAME
                else _records(content, path, offset)
            )
            continue
        name = (renamed.get("path") or _name(header)).decode("utf-8", "backslashreplace")
        if kind in _PLAIN:
            yield Member(
                name, offset, size, block[_BLOCK : _BLOCK + size] if size <= _BLOCK else None
            )
        elif kind not in _PASSED_OVER:
            found = "a link" if kind in _LINKS else f"one of the kind {kind!r}"
            raise DataError(
                f"{path}: expected plain files, found {found} ({name}): pack the file itself"
            )
        renamed = {}


def _size(header: bytes, path: Path, place: int) -> int:
    """Of the contents; the checksum tells whether this is a header at all."""
    try:
        written = _octal(header[148:156])
        if written != 8 * ord(" ") + sum(header) - sum(header[148:156]):
            raise ValueError
        if header[124] & 0x80:  # GNU's way of writing sizes from 8 GiB on
            return int.from_bytes(header[125:136], "big")
        return _octal(header[124:136])
    except ValueError:
        raise _damaged(path, place, "no header of a member") from None


def _octal(field: bytes) -> int:
    """A number of a header. One with a sign would lead back to where reading has been, for ever."""
    digits = field.strip(b"\0 ") or b"0"
    if not digits.isdigit():
        raise ValueError
    return int(digits, 8)


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _records(content: bytes, path: Path, place: int) -> dict[str, bytes]:
    """Records `length key=value` of pax: those that say a name or a size."""
    found = dict[str, bytes]()
    while content.strip(b"\0"):
        match = _RECORD.match(content)
        length = int(match[1]) if match else 0
        if match is None or not match.end() < length <= len(content):
            raise _damaged(path, place, "no pax record")
        if (key := match[2].decode("ascii", "replace")) in ("path", "size"):
            found[key] = content[match.end() : length - 1]
        elif key.startswith("GNU.sparse."):
            raise DataError(
                f"{path}: expected plain files, found one with holes at byte {place}: pack it whole"
            )
        content = content[length:]
    if not _SIZE.fullmatch(found.get("size", b"0")):
        raise _damaged(path, place, "a size that is no number")
    return found


def _check_rest(file: BinaryIO, path: Path, place: int, end: int) -> None:
    """After the end mark there is nothing but its repetition."""
    file.seek(place)
    while part := file.read(1 << 20):
        if any(part):
            raise DataError(
                f"{path}: expected nothing after the end mark at byte {place}, found {end - place} bytes: are these "
                "several tar files in one? Give each a file of its own"
            )


def _cut_off(path: Path, found: str) -> DataError:
    return DataError(f"{path}: expected a whole tar file, found it cut off ({found}): get it again")


def _damaged(path: Path, place: int, found: str) -> DataError:
    return DataError(f"{path}: expected a tar file, found {found} at byte {place}: get it again")
