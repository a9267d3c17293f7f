"""One process at a time: locks that the system releases even after kill -9, on Linux, macOS and Windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from smoothcert.errors import StoreError
from smoothcert.files import write_error


@contextmanager
def locked(path: Path, busy: str | None) -> Iterator[None]:
    """Hold the lock file `path`, which stays behind empty.

    If another process has it: an error that begins with `busy`, or, where that is None, a wait for it.
    """
    lock = FileLock(path, timeout=-1 if busy is None else 0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreError(
            f"{busy}: wait for it to end, or stop it (if none runs, on a disk without locks, delete {path})"
        ) from error
    except NotImplementedError as error:
        raise StoreError(
            f"{path.parent} is on a disk without locks, so that two processes could write one part unseen: certify "
            "on a local disk on each machine, with --shard i/N, and join the stores by `smoothcert merge`"
        ) from error
    except OSError as error:
        raise write_error(path, error) from error
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file `path`. Ask only where none can be about to take it."""
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    lock.release()
    return False
