"""Several processes, started with ``torchrun``: the only file that knows torch.distributed.

Gradients are averaged by one all-reduce after backward instead of by a DistributedDataParallel wrapper: methods run
several forwards for one backward and differentiate with respect to inputs, which the wrapper's hooks do not expect,
and the loop, the state dict and the single-process path stay the same.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from smoothcert.devices.pick import pick_device


@dataclass(frozen=True)
class Ranks:
    """The device of this process, and its place among those that torchrun started."""

    device: torch.device
    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def average_gradients(self, model: nn.Module) -> None:
        if self.world_size == 1:
            return
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.world_size
        pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))

    def share_buffers(self, model: nn.Module) -> None:
        """Give every rank the main rank's BatchNorm statistics, so that a resumed run equals an uninterrupted one."""
        if self.world_size > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, src=0)

    def sum(self, values: Tensor) -> Tensor:
        if self.world_size > 1:
            dist.all_reduce(values)
        return values

    def wait(self) -> None:
        if self.world_size > 1:
            dist.barrier()

    def close(self) -> None:
        if self.world_size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def join_ranks(device: str = "auto") -> Ranks:
    """The device to use, and this process's place among those that torchrun started."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = pick_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if world_size > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return Ranks(chosen, rank, world_size)
