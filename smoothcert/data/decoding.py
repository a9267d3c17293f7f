"""Pictures decoded ahead: the batches of a `LazyDataset` as arrays, made by worker processes or by threads.

Each worker has a pipe of its own and writes uint8 pixels straight into memory that it shares with this process. Every
batch is cut into one part for each worker, so that nothing has to be handed out while the device works. The memory has
no name and is no part of /dev/shm, which is small in containers; it is gone with the last process that uses it.

Workers are plain new interpreters: a fork would break CUDA, and `multiprocessing` would run the user's script again.
They end with the pipe, so that none outlives a training that was killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from math import prod
from mmap import mmap
from multiprocessing.connection import Connection, Pipe

import numpy as np

from smoothcert.data.lazy import LazyDataset
from smoothcert.errors import ConfigError, DataError

_AHEAD = 2  # batches that are decoded while the device works
_FEW = 1_000  # pictures that threads have decoded before processes pay for their start
_MOST = 32  # workers that are started unasked
_WORKER = "import sys; sys.path[:] = {path}; from smoothcert.data.decoding_worker import serve; serve({arguments})"

_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # glibc keeps the memory of one picture for the next; giving it back costs a fifth of the time of a picture
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 28),
}


@dataclass(frozen=True)
class Wanted:
    """The pictures of one batch: their places in the data set and, for random parts of them, a seed for each."""

    indices: Sequence[int]
    seeds: Sequence[int] | None = None

    def image(self, dataset: LazyDataset, row: int) -> np.ndarray:
        i = self.indices[row]
        return (
            dataset.image(i)
            if self.seeds is None
            else dataset.train_image(i, np.random.default_rng(self.seeds[row]))
        )

    def part(self, rows: range) -> Wanted:
        """These rows, for a set that has their pictures alone."""
        return Wanted(
            range(len(rows)), None if self.seeds is None else self.seeds[rows.start : rows.stop]
        )


Submit = Callable[[Wanted], Callable[[], np.ndarray]]
"""Starts the decoding of a batch; the function that is returned waits for it."""


def decoded(
    dataset: LazyDataset, wanted: Iterable[Wanted], size: int, workers: int
) -> Generator[np.ndarray, None, None]:
    """uint8 [B, C, H, W] for each batch of at most `size` pictures, valid until the next one is asked for.

    The pixels do not depend on the number of workers; 0 means threads of this process.
    """
    rest = iter(wanted)
    # left early, the generator is closed, and its processes or threads with it
    with _processes(dataset, size, workers) if workers else _threads(dataset) as submit:
        ahead = deque(map(submit, islice(rest, _AHEAD)))
        while ahead:
            wait = ahead.popleft()
            ahead.extend(map(submit, islice(rest, 1)))
            yield wait()


def check_workers(asked: int | None) -> None:
    """Refuse a number of workers that cannot be had."""
    if asked and (asked < 0 or os.name != "posix"):
        wanted = (
            "a number of workers from 0 on"
            if os.name == "posix"
            else "0 workers, since Windows has no such pipes"
        )
        raise ConfigError(
            f"expected {wanted}, found {asked}: 0 decodes pictures in the training process itself"
        )


def choose_workers(asked: int | None, dataset: LazyDataset, pictures: int) -> int:
    """How many processes decode so many pictures: as asked, or this rank's share of the host's cores."""
    check_workers(asked)
    if asked is not None:
        return asked if pictures else 0
    # a class of the user's script or notebook is known to this process alone
    if pictures < _FEW or os.name != "posix" or type(dataset).__module__ == "__main__":
        return 0
    return max(
        1, min(_MOST, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    )  # torchrun's ranks on this host


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _threads(dataset: LazyDataset) -> Iterator[Submit]:
    def submit(wanted: Wanted) -> Callable[[], np.ndarray]:
        images = [pool.submit(wanted.image, dataset, row) for row in range(len(wanted.indices))]
        return lambda: np.stack([image.result() for image in images])

    pool = ThreadPoolExecutor(min(16, cores()))
    try:
        yield submit
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _processes(dataset: LazyDataset, size: int, workers: int) -> Iterator[Submit]:
    room = size * prod(dataset.shape)  # bytes of one batch
    with ExitStack() as opened:
        memory = opened.enter_context(_shared_memory((_AHEAD + 1) * room))
        pixels = mmap(memory, 0)
        started = [
            opened.enter_context(_worker(memory, dataset.name)) for _ in range(min(workers, size))
        ]
        buffers = count()

        def submit(wanted: Wanted) -> Callable[[], np.ndarray]:
            first = next(buffers) % (_AHEAD + 1) * room
            shape = len(wanted.indices), *dataset.shape
            images = np.frombuffer(pixels, np.uint8, prod(shape), first).reshape(shape)
            share = -(-len(images) // len(started))
            cuts = [range(k, min(k + share, len(images))) for k in range(0, len(images), share)]
            for worker, rows in zip(started, cuts, strict=False):
                part = dataset.part([wanted.indices[row] for row in rows])
                worker.send((part, wanted.part(rows), first + rows.start * prod(dataset.shape)))
            return partial(finish, wanted, images, cuts)

        def finish(wanted: Wanted, images: np.ndarray, cuts: list[range]) -> np.ndarray:
            for worker, rows in zip(started, cuts, strict=False):
                for (
                    row
                ) in worker.receive():  # what it could not decode raises its error here, as it is
                    images[rows[row]] = wanted.image(dataset, rows[row])
            return images

        yield submit


@contextmanager
def _shared_memory(size: int) -> Iterator[int]:
    """The descriptor of nameless memory."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("smoothcert-pictures")
        try:
            os.truncate(descriptor, size)
            yield descriptor
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            yield file.fileno()


@dataclass(frozen=True)
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    name: str

    def send(self, task: object) -> None:
        try:
            self.pipe.send(task)
        except OSError as error:
            raise self._ended() from error

    def receive(self) -> Sequence[int]:
        try:
            failed: Sequence[int] = self.pipe.recv()
            return failed
        except (EOFError, OSError) as error:
            raise self._ended() from error

    def _ended(self) -> DataError:
        return DataError(
            f"a process that decodes pictures of {self.name} ended with the status {self.process.wait()}: if memory is "
            "short, ask for fewer workers; 0 decodes in the training process itself"
        )


@contextmanager
def _worker(memory: int, name: str) -> Iterator[_Worker]:
    ours, theirs = Pipe()
    with ours:
        with theirs:
            arguments = f"{theirs.fileno()}, {memory}, {os.getpid()}"
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _WORKER.format(path=list(map(str, sys.path)), arguments=arguments),
                ],
                pass_fds=[theirs.fileno(), memory],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that trains
                env={**os.environ, **_ENVIRONMENT},
            )
        try:
            yield _Worker(process, ours, name)
        finally:
            ours.close()  # which ends it
            process.wait()
