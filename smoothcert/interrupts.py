"""Ctrl-C (SIGINT) and SIGTERM: a command ends at once, and training saves its state first.

Everything on disk is whole at any moment (see files.py and runs/store.py), so that ending at once costs only the work
since the last row or checkpoint. An exception instead would depend on what it is thrown into: an import in C, a
destructor or a thread pool may turn it into another error, or swallow it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal came while it was `postponed`, here or in another process of the same work."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def leave_on_signals(advice: str = "") -> None:
    """From now on a signal ends this process with one line and the status 128 + its number: 130 or 143."""
    told = f"interrupted{advice and f': {advice}'}\n".encode()
    for number in _heeded():
        signal.signal(number, partial(_leave, told))


def leave_with(descriptor: int) -> None:
    """From now on this process gets SIGTERM once nobody holds the other end of this pipe, as after `kill -9` there."""

    def watch() -> None:
        while os.read(descriptor, 1):
            pass
        os.kill(
            os.getpid(), signal.SIGTERM
        )  # also wakes the main thread where it waits, which raise_signal does not

    threading.Thread(target=watch, daemon=True).start()


def _leave(told: bytes, number: int, frame: FrameType | None) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # it may be in the middle of a write
            stream.flush()
    shown = b"\x1b[?25h\n" if os.isatty(2) else b""  # a progress bar hides the cursor
    if speaks():
        with suppress(OSError):
            os.write(2, shown + told)
    os._exit(128 + number)


def speaks() -> bool:
    """Whether this process is the one of those that torchrun started that speaks for all of them."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def postponed() -> Iterator[Callable[[], int]]:
    """Within, signals wait. The function that is yielded gives the number of the first one that came, or 0.

    Raise `Interrupted` with that number where the work can stop: when it leaves the block, the signal is given to the
    handler that was there before. Other threads than the main one receive no signals, and there nothing is postponed.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, note) for number in _heeded()} if main else {}
    try:
        yield lambda: came[0] if came else 0
    except Interrupted as interrupted:
        came[:] = [interrupted.number]
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def before_leaving(action: Callable[[], None]) -> Iterator[None]:
    """Within, a signal first calls `action`, and then does what it did before; a second one does not wait for that."""
    active = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _heeded()} if active else {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def act(number: int, frame: FrameType | None) -> None:
        restore()
        action()
        signal.raise_signal(number)

    for number in before:
        signal.signal(number, act)
    try:
        yield
    finally:
        restore()


def _heeded() -> list[signal.Signals]:
    """Not those that the parent process wants ignored, as nohup does and shells do for work in the background."""
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
