"""What the package knows of kernels that are made for one network: an entry in the list of registry.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]


class Sampler(Protocol):
    """A network that answers by kernels. An image gets the same bits in a batch of any size."""

    batch_size: int  # that suits it

    def inputs(self, count: int) -> Tensor:
        """Where to write a batch; the next call may reuse the memory."""

    def __call__(self, x: Tensor) -> Tensor:
        """Logits in float32 of such a batch."""


@dataclass(frozen=True)
class Entry:
    """Kernels that can stand for a network, in sampling and in training.

    Nothing here imports Triton before `sampling` or `training` is called, and they are called only where it runs and
    the `why_not` of the same name gives no reason against it.
    """

    name: str
    version: int  # rises when other bits come out of sampling
    network: type[nn.Module]  # whoever has such a module is told why it gets no kernels
    why_not_sampling: Callable[
        [nn.Module, Shape], str | None
    ]  # an eval-mode model, and the shape of its images
    sampling: Callable[
        [nn.Module, Shape, torch.device, torch.dtype], Sampler
    ]  # in float16 or bfloat16
    why_not_training: Callable[[nn.Module], str | None]
    training: Callable[
        [nn.Module, torch.dtype], nn.Module
    ]  # products of float32 in TF32, or layers in bfloat16

    @property
    def title(self) -> str:
        """As manifests name them: it is part of the identity of a certificate store. A first version has no number."""
        return f"{self.name} kernels" + (f" {self.version}" if self.version > 1 else "")
