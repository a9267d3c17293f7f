"""One process at a time: locks that the system releases even after kill -9, on Linux, macOS and Windows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from smoothcert.errors import StoreError
from smoothcert.files import write_error


@contextmanager
def locked(path: Path, busy: str | None, patience: float = -1.0) -> Iterator[None]:
    """Hold the lock file `path`, which stays behind empty.

    If another process has it: an error that begins with `busy`, or, where that is None, a wait for it. With `patience`,
    the wait ends after so many seconds, without the lock: give it where two at a time cost time, and do no harm.
    """
    lock = _lock(path, patience if busy is None else 0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        if busy is not None:
            raise StoreError(
                f"{busy}: wait for it to end, or stop it (if none runs, on a disk without locks, delete {path})"
            ) from error
    except NotImplementedError as error:
        raise StoreError(
            f"{path.parent} is on a disk without locks, so that two processes could write one part unseen: certify "
            "on a local disk on each machine, with a shard i/N for each, and join the stores by `smoothcert merge`"
        ) from error
    except OSError as error:
        raise write_error(path, error) from error
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file `path`. Ask only where none can be about to take it."""
    lock = _lock(path, 0)
    try:
        lock.acquire()
    except (Timeout, PermissionError):  # of another user, who may be at work
        return True
    lock.release()
    return False


def _lock(path: Path, timeout: float) -> BaseFileLock:
    """The system's, or none: newer versions of filelock would put up with a lock that outlives kill -9."""
    known = inspect.signature(FileLock.__init__).parameters
    strict: dict[str, Any] = {"fallback_to_soft": False} if "fallback_to_soft" in known else {}
    return FileLock(path, timeout=timeout, **strict)
