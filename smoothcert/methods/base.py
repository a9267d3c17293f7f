"""What a training method is: one function from a batch to a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from smoothcert.data.batches import Batch
from smoothcert.errors import ConfigError

__all__ = ["Batch", "Losses", "Method", "Progress", "noisy_copies"]

_RESERVED = {"epoch", "lr", "loss", "noisy_test_accuracy"}


@dataclass(frozen=True)
class Losses:
    """`total` is what the optimiser minimises; `terms` are shown and logged beside it."""

    total: Tensor
    terms: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if taken := _RESERVED.intersection(self.terms):
            raise ConfigError(f"a term of a loss cannot be called {', '.join(taken)}: metrics.jsonl has such an entry")


@dataclass(frozen=True)
class Progress:
    """Where training stands: `epoch` counts from 0."""

    epoch: int
    epochs: int


@dataclass(frozen=True)
class Method(ABC):
    """Base of every method: a frozen dataclass of hyperparameters with one `loss`.

    A method never steps an optimiser, moves a device or knows ranks. All its randomness comes from
    ``batch.generator``. A class of yours works by its dotted path (``--method.name mypkg.MyMethod``).
    """

    @property
    def chunks(self) -> int:
        """Optimiser steps that a loaded batch is cut into.

        The published code of SmoothAdv, Consistency, SmoothMix and CAT-RS cuts a batch of B images into m parts of
        B // m images and takes one step on the m noisy copies of each part; Gaussian, Stability and MACER take one.
        """
        return 1

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses: ...


def noisy_copies(batch: Batch, sigma: float, noises: int) -> Tensor:
    """`noises` noisy copies of every image, noise-major: [m * B, C, H, W]. Never clamped to [0,1]."""
    shape = (noises, *batch.images.shape)
    noise = torch.randn(shape, generator=batch.generator, device=batch.images.device)  # [m, B, C, H, W]
    return (batch.images + sigma * noise).flatten(0, 1)
