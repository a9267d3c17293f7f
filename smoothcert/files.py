"""Files that are always whole: a process killed while it writes leaves the old file or the new one."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from smoothcert.errors import StoreError


@contextmanager
def atomic_write(path: Path, *, keep: bool = False) -> Iterator[BinaryIO]:
    """A binary file that appears under `path` only when complete: temporary name, fsync, rename.

    With `keep`, a file that is there already (or that another process is first to write) stays as it is.
    """
    # a random name, since hosts that share a disk may also share process numbers
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep:
            with suppress(FileExistsError):
                os.link(temporary, path)
        else:
            os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """A whole text file at once, in UTF-8."""
    with atomic_write(path) as file:
        file.write(text.encode())


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_leftovers(folder: Path) -> None:
    """Delete the unfinished temporary files of killed writers. Call it only where no other process can be writing."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file durable."""
    if os.name == "nt":  # Windows opens no folders, and writes their entries at once
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_error(path: Path, error: OSError) -> StoreError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return StoreError(
        f"could not write {path}: {error.strerror or error}. What was stored before is untouched: "
        f"{'free some space' if full else 'choose a folder that can be written'}, and run the same command again"
    )
