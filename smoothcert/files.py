"""Writing that survives being killed: a reader finds the whole old file or the whole new one."""

from __future__ import annotations

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
    # hosts that share a disk may share process numbers too, so chance makes the name
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


def remove_leftovers(folder: Path) -> None:
    """Delete the unfinished temporary files of killed writers. Only where no other writer can be at work."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_error(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"could not write {path}: {error.strerror or error}. What was stored before is untouched: free some space "
        "or choose a writable folder, and run the same command again"
    )
