"""A process that decodes pictures into memory that it shares with the process that asks for them."""

from __future__ import annotations

import os
import pickle
import signal
from contextlib import suppress
from math import prod
from mmap import mmap
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

import numpy as np

_LOOK = 5.0  # seconds after which a worker without tasks looks whether its parent is still there


def serve(pipe: int, memory: int, parent: int) -> None:
    """Answer each task with the rows that could not be decoded, until the pipe ends."""
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # the parent decides when work ends: it may have to save its state
        signal.signal(number, signal.SIG_IGN)
    tasks, pixels, connection = SimpleQueue[bytes](), mmap(memory, 0), Connection(pipe)
    Thread(target=_listen, args=(connection, parent, tasks), daemon=True).start()
    with suppress(OSError):  # nobody waits for the answer any more
        while True:
            connection.send(_decode(tasks.get(), pixels))


def _listen(connection: Connection, parent: int, tasks: SimpleQueue[bytes]) -> None:
    """Take tasks out of the pipe at once, so that the parent never waits; and leave with the parent at once."""
    try:
        while True:
            # the pipe of a parent that was killed stays open if another process has inherited its end
            while not connection.poll(_LOOK):
                if os.getppid() != parent:
                    return
            tasks.put(connection.recv_bytes())
    except (EOFError, OSError):
        pass
    finally:
        os._exit(0)


def _decode(task: bytes, pixels: mmap) -> list[int]:
    dataset, wanted, first = pickle.loads(task)  # of our own parent
    size, failed = prod(dataset.shape), []
    for row in range(len(wanted.indices)):
        try:
            image = np.frombuffer(pixels, np.uint8, size, first + row * size).reshape(dataset.shape)
            image[...] = wanted.image(dataset, row)
        except Exception:  # the parent tries it again, and tells what is wrong
            failed.append(row)
    return failed
