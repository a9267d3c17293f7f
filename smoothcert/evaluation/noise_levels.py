"""How a base classifier does under noise of several levels, on a few images: what a certificate can be hoped for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.errors import COLLAPSED
from smoothcert.kernels.prepare import Prepared
from smoothcert.statistics import bounds

LEVELS = (0.0, 0.12, 0.25, 0.5, 1.0)

Answers = Callable[[Tensor], Tensor]  # a batch [b, C, H, W] in [0, 1] and beyond -> classes [b]


@dataclass(frozen=True, eq=False)
class Level:
    """What was counted at one noise level."""

    sigma: float
    copies: int  # per image
    counts: NDArray[np.int64]  # [images, classes]

    def accuracy(self, labels: NDArray[np.int64]) -> float:
        """Share of noisy copies that get their label."""
        return float(self.counts[np.arange(len(labels)), labels].mean() / self.copies)

    @property
    def most_frequent(self) -> float:
        """Share of all answers that are the most frequent one."""
        return float(self.counts.sum(0).max() / self.counts.sum())

    @property
    def shares(self) -> NDArray[np.float64]:
        """Of each image's most frequent class; one that got all of c copies is taken to have (c + 1/2) / (c + 1)."""
        found: NDArray[np.float64] = (self.counts.max(1) + 0.5) / (self.copies + 1)
        return found

    def hoped_radii(self, n: int, alpha: float) -> NDArray[np.float64]:
        """The radius of each image's most frequent class if n samples voted as these few do; 0 for an abstention."""
        p_lower = bounds.lower_bound(np.floor(self.shares * n).astype(np.int64), n, alpha)
        radii = (
            np.asarray(bounds.radius(p_lower, self.sigma)) if self.sigma else np.zeros(len(p_lower))
        )
        return np.where(p_lower > 0.5, radii, 0.0)

    def hoped(self, labels: NDArray[np.int64] | None, n: int, alpha: float) -> tuple[float, float]:
        """The share of images to be certified, and the average radius: of right answers, or of all without labels."""
        radii = self.hoped_radii(n, alpha)
        counted = radii if labels is None else radii * (self.counts.argmax(1) == labels)
        return float((counted > 0).mean()), float(counted.mean())


def answers_of(prepared: Prepared, batch_size: int) -> Answers:
    """The classes that a prepared network gives, a few images at a time."""

    @torch.inference_mode()
    def classes(images: Tensor) -> Tensor:
        found = []
        for part in torch.split(images, batch_size):
            x = prepared.inputs(len(part))
            x.copy_(part)
            found.append(prepared.forward(x).argmax(1))
        return torch.cat(found)

    return classes


def measure_level(
    answers: Answers, images: Tensor, sigma: float, copies: int, classes: int, seed: int
) -> Level:
    """Votes of `copies` noisy copies of each image; one copy where there is no noise."""
    copies = copies if sigma else 1
    generator = torch.Generator(images.device).manual_seed(seed)
    counts = torch.zeros(len(images), classes, dtype=torch.int64, device=images.device)
    for _ in range(copies):
        noise = (
            torch.randn(images.shape, generator=generator, device=images.device) if sigma else 0.0
        )
        counts.scatter_add_(
            1, answers(images + sigma * noise)[:, None], torch.ones_like(counts[:, :1])
        )
    return Level(sigma, copies, counts.cpu().numpy())


def best_sigma(
    levels: Sequence[Level], labels: NDArray[np.int64], n: int, alpha: float
) -> float | None:
    """The level with the largest average radius to be hoped for, where the network does not answer one class.

    None if none certifies anything.
    """
    one_class = max(COLLAPSED, float(np.bincount(labels).max()) / len(labels))
    hoped = {
        level.sigma: level.hoped(labels, n, alpha)[1]
        for level in levels
        if level.sigma and level.most_frequent <= one_class
    }
    return max(hoped, key=lambda sigma: hoped[sigma]) if any(hoped.values()) else None
