"""Several processes, started with ``torchrun``: the only file that knows torch.distributed.

Gradients are added up by one all-reduce after backward instead of by a DistributedDataParallel wrapper: methods run
several forwards for one backward and differentiate with respect to inputs, which the wrapper's hooks do not expect,
and the loop, the state dict and the single-process path stay the same.

What is on the GPU goes through NCCL, and what is in the host's memory through gloo. A process that is killed closes its
connections, which gloo notices at once: `agree`, after every batch, finds out whether all are there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn

from smoothcert.devices.pick import pick_device
from smoothcert.errors import ConfigError, ProcessLost

_LONG = timedelta(days=30)
"""How long one process may work while the others wait for it, as when it makes soft labels or waits for a lock."""


@dataclass(frozen=True)
class Ranks:
    """The device of this process, and its place among those that torchrun started."""

    device: torch.device
    rank: int = 0
    world_size: int = 1
    patient: Any = None  # a group of all processes with a long time limit

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def add_gradients(self, model: nn.Module) -> None:
        """Give all processes the sum of their gradients."""
        if self.world_size == 1:
            return
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.sum(flat)
        pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))

    def share_buffers(self, model: nn.Module) -> None:
        """Give every rank the main rank's BatchNorm statistics, which the epoch's evaluation and the run end with."""
        if self.world_size > 1:
            with _together():
                for buffer in model.buffers():
                    dist.broadcast(buffer, src=0)

    def sum(self, values: Tensor) -> Tensor:
        if self.world_size > 1:
            with _together():
                dist.all_reduce(values)
        return values

    def agree(self, number: int) -> int:
        """The largest of the numbers that the processes give. No process waits for a device."""
        if self.world_size == 1:
            return number
        largest = torch.tensor(number)
        with _together():
            dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        return int(largest)

    def require_same(self, what: str, value: str) -> None:
        """An error in every process unless all of them give the same value, which may take each its time."""
        if self.world_size == 1:
            return
        number = int.from_bytes(sha256(value.encode()).digest()[:7], "big")
        self.wait()
        if self.agree(number) != -self.agree(-number):
            raise ConfigError(
                f"the processes of this training have different {what}: give all of them the same command, the same "
                "data and one run folder, on a disk that all machines share"
            )

    def gather(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """For the main process: what each one gives, in the order of their ranks. Tensors are in the host's memory."""
        if self.world_size == 1:
            return [state]
        states: list[dict[str, Any]] = [{} for _ in range(self.world_size)]
        with _together():
            dist.gather_object(state, states if self.is_main else None, dst=0, group=self.patient)
        return states

    def wait(self) -> None:
        """Until all processes are here, however long one of them takes."""
        if self.world_size > 1:
            with _together():
                dist.barrier(group=self.patient)

    def close(self) -> None:
        if self.world_size > 1 and dist.is_initialized():
            dist.destroy_process_group()


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # without the place in gloo's code, and what it advises
        reason = re.sub(r"^\[[^\]]*\] ", "", str(error).splitlines()[0]).split(". ")[0]
        raise ProcessLost(
            f"another process of this training has ended or cannot be reached (rank {os.environ.get('RANK')}: "
            f"{reason}): run the same command to go on from the last checkpoint"
        ) from error


def join_ranks(device: str = "auto") -> Ranks:
    """The device to use, and this process's place among those that torchrun started."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = pick_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if world_size == 1:
        return Ranks(chosen)
    with _together():
        if not dist.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if chosen.type == "cuda" else "gloo"
            store, _, _ = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
            fresh = _fresh(store, rank, world_size)
            dist.init_process_group(backend, store=fresh, rank=rank, world_size=world_size)
        return Ranks(chosen, rank, world_size, dist.new_group(backend="gloo", timeout=_LONG))


def _fresh(store: Any, rank: int, world_size: int) -> Any:
    """A part of the store that belongs to this start alone.

    When torchrun starts the processes again it keeps its store, where the addresses of the former ones still are
    (PyTorch 2.13). So each process draws a name, and all take that of the main one once it has read theirs.
    """
    name, others = uuid4().hex, range(1, world_size)
    if rank == 0:
        while not store.check([f"{name}/{other}" for other in others]):
            store.set(
                "start",
                " ".join([name, *(store.get(f"here/{other}").decode() for other in others)]),
            )
            time.sleep(0.01)
    else:
        store.set(f"here/{rank}", name)
        while name not in (found := store.get("start").decode().split()):
            time.sleep(0.01)
        name = found[0]
        store.set(f"{name}/{rank}", "")
    return dist.PrefixStore(name, store)  # type: ignore[attr-defined]
