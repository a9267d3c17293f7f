"""Several processes, started with ``torchrun``: the only file that knows torch.distributed.

Gradients are added up by one all-reduce after backward instead of by a DistributedDataParallel wrapper: methods run
several forwards for one backward and differentiate with respect to inputs, which the wrapper's hooks do not expect,
and the loop, the state dict and the single-process path stay the same.

What is on the GPU goes through NCCL, and what is in the host's memory through gloo. A process that is killed closes its
connections, which gloo notices at once: `agree`, after every batch, finds out whether all are there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from smoothcert.devices.pick import pick_device
from smoothcert.errors import ProcessLost

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
        raise ProcessLost(
            "another process of this training has ended or cannot be reached: run the same command to go on from the "
            f"last checkpoint (rank {dist.get_rank()} was told: {str(error).splitlines()[0]})"
        ) from error


def join_ranks(device: str = "auto") -> Ranks:
    """The device to use, and this process's place among those that torchrun started."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = pick_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if world_size == 1:
        return Ranks(chosen)
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if chosen.type == "cuda" else "gloo")
    return Ranks(chosen, rank, world_size, dist.new_group(backend="gloo", timeout=_LONG))
