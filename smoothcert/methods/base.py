"""What a training method is: one function from a batch to a loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from smoothcert.data.batches import Batch
from smoothcert.errors import ConfigError

__all__ = [
    "Batch",
    "Losses",
    "Method",
    "Progress",
    "Shares",
    "check_domain",
    "draw_noise",
    "noisy_copies",
]

_RESERVED = {
    "epoch",
    "lr",
    "loss",
    "noisy_test_accuracy",
    "most_frequent_answer",
    "test_mse",
    "test_psnr",
    "pseudo_labelled_loss",
    "kept_images",
}


@dataclass(frozen=True)
class Losses:
    """`total` is what the optimiser minimises; `terms` are shown and logged beside it."""

    total: Tensor
    terms: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if taken := _RESERVED.intersection(self.terms):
            raise ConfigError(
                f"a term of a loss cannot be called {', '.join(taken)}: metrics.jsonl has such an entry"
            )


@dataclass(frozen=True)
class Progress:
    """Where training stands: `epoch` counts from 0."""

    epoch: int
    epochs: int

    def ramp(self, warmup: int, as_printed: bool = False) -> float:
        """min(1, (e + 1) / warmup), already above 0 in epoch 0; as printed min(1, e / warmup)."""
        return min(1.0, (self.epoch + (not as_printed)) / warmup)

    def reached(self, epoch: int) -> bool:
        """Whether that epoch has begun. Asked so, and not by `epoch`, a step stays captured from then on."""
        return self.epoch >= epoch


@dataclass(frozen=True)
class Shares:
    """How often each training image is answered with its label: [images] float64 on the CPU, alike in all processes."""

    of_copies: Callable[[int], Tensor]  # so many noisy copies, answered by the network as it is now
    of_soft_labels: Callable[[], Tensor]  # for methods with soft labels


@dataclass(frozen=True)
class Method(ABC):
    """Base of every method: a frozen dataclass of hyperparameters with one `loss`.

    A method whose paper was compared with its authors' code has a field `as_printed`, by default
    False: the code. A run as printed refuses a method without it.

    A method never steps an optimiser, chooses a device or knows ranks. All its randomness comes from ``batch.draw``,
    or from ``batch.generator`` where several processes need not use the numbers of one. Losses are means over the
    images of the batch. A class of yours works by its dotted path (``--method.name mypkg.MyMethod``).
    """

    @property
    def chunks(self) -> int:
        """Optimiser steps that a loaded batch is cut into.

        The published code of SmoothAdv, Consistency, SmoothMix and CAT-RS cuts a batch of B images into m parts of
        B // m images and takes one step on the m noisy copies of each part; Gaussian, Stability and MACER take one.
        As printed (SmoothAdv's pseudocode 1) all take one step on the m copies of the whole batch.
        """
        return 1

    @property
    def uses_soft_labels(self) -> bool:
        """Whether `loss` reads ``batch.soft_labels``; training then makes them first (training/soft_labels.py)."""
        return False

    @property
    def denoises(self) -> bool:
        """Whether the network gives an image back, not logits."""
        return False

    def equipped(self, load: Callable[[str], nn.Module]) -> Method:
        """The method with the other networks that its loss asks; `load` gives that of a run folder, frozen."""
        return self

    def sampling(self, progress: Progress, before: Tensor | None, shares: Shares) -> Tensor | None:
        """Weights with which the images of an epoch are drawn, with replacement: [images] on the CPU, 0 for never.

        Asked at the start of every epoch; `before` is the answer of the epoch before. By default None: each epoch is a
        shuffle of all images.
        """
        return None

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses: ...


def check_domain(
    method: Method,
    *,
    positive: Sequence[str] = (),
    counts: Sequence[str] = (),
    weights: Sequence[str] = (),
) -> None:
    """Refuse hyperparameters outside their domain: `positive` > 0, `counts` >= 1, `weights` >= 0, and all finite."""
    for names, low, text in (
        (positive, math.ulp(0.0), "above 0"),
        (counts, 1, "1 or above"),
        (weights, 0, "0 or above"),
    ):
        for name in names:
            value = getattr(method, name)
            if not (math.isfinite(value) and value >= low):
                raise ConfigError(f"{type(method).__name__} needs {name} {text}, found {value!r}")


def draw_noise(batch: Batch, sigma: float, noises: int) -> Tensor:
    """N(0, sigma^2 I) for `noises` copies of every image: [m, B, C, H, W]."""
    return sigma * batch.draw(torch.randn, (noises, *batch.images.shape), images=1)


def noisy_copies(batch: Batch, sigma: float, noises: int) -> Tensor:
    """`noises` noisy copies of every image, noise-major: [m * B, C, H, W]. Never clamped to [0,1]."""
    return (batch.images + draw_noise(batch, sigma, noises)).flatten(0, 1)
