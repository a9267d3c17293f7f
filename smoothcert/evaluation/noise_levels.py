"""How a base classifier does under noise of several levels, on a few images: what certificates it can be expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.errors import COLLAPSED
from smoothcert.evaluation.input_forms import clearly_more
from smoothcert.kernels.prepare import Prepared
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import Law

LEVELS = (0.12, 0.25, 0.5, 1.0)

Answers = Callable[[Tensor], Tensor]  # a batch [b, C, H, W] in [0, 1] and beyond -> classes [b]


@dataclass(frozen=True, eq=False)
class Level:
    """What was counted at one noise level; of clean images, one answer each."""

    sigma: float
    counts: NDArray[np.int64]  # [images, classes]

    @property
    def copies(self) -> int:
        return int(self.counts[0].sum())

    def accuracy(self, labels: NDArray[np.int64]) -> float:
        """Share of noisy copies that get their label."""
        return float(self.counts[np.arange(len(labels)), labels].mean() / self.copies)

    def one_class(self, labels: NDArray[np.int64] | None) -> int | None:
        """The class that nearly all noisy copies are taken for, whatever their label; None if there is none."""
        answer, shares = int(self.counts.sum(0).argmax()), self.counts / max(self.copies, 1)
        if labels is None:
            return answer if shares[:, answer].mean() > COLLAPSED else None
        # each label counts alike: if most images have one label, most answers may well be that one
        of_labels = [shares[labels == label, answer].mean() for label in np.unique(labels)]
        return answer if len(of_labels) > 1 and np.mean(of_labels) > COLLAPSED else None

    @property
    def shares(self) -> NDArray[np.float64]:
        """Of each image's most frequent class; one that got all of c copies is taken to have (c + 1/2) / (c + 1)."""
        found: NDArray[np.float64] = (self.counts.max(1) + 0.5) / (self.copies + 1)
        return found

    def expected_radii(self, n: int, alpha: float, law: Law) -> NDArray[np.float64]:
        """The radius of each image's most frequent class if n samples voted as these few do; 0 for an abstention."""
        p_lower = bounds.lower_bound(np.floor(self.shares * n).astype(np.int64), n, alpha)
        return law.radius(p_lower, self.sigma)

    def expected(
        self, labels: NDArray[np.int64] | None, n: int, alpha: float, law: Law
    ) -> tuple[float, float]:
        """The share of images to be certified, and the average radius: of right answers, or of all without labels."""
        radii = self.expected_radii(n, alpha, law)
        counted = radii if labels is None else radii * (self.counts.argmax(1) == labels)
        return float((counted > 0).mean()), float(counted.mean())

    def beats_one_class(self, labels: NDArray[np.int64], n: int, alpha: float, law: Law) -> bool:
        """Whether clearly more images will be certified with their label than by a classifier with one answer."""
        right = (self.expected_radii(n, alpha, law) > 0) & (self.counts.argmax(1) == labels)
        return self.one_class(labels) is None and clearly_more(right, labels == commonest(labels))

    def one_class_acr(self, labels: NDArray[np.int64], n: int, alpha: float, law: Law) -> float:
        """The same for a classifier that always gives the most frequent label: all its copies agree."""
        (radius,) = Level(self.sigma, np.array([[self.copies]])).expected_radii(n, alpha, law)
        return float(radius * (labels == commonest(labels)).mean())


def commonest(labels: NDArray[np.int64]) -> int:
    """The most frequent label: the best answer of a classifier that has only one."""
    return int(np.bincount(labels).argmax())


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
    answers: Answers, images: Tensor, sigma: float, law: Law, copies: int, classes: int
) -> Level:
    """Votes of `copies` noisy copies of each image."""
    generator = torch.Generator(images.device).manual_seed(0)
    counts = torch.zeros(len(images), classes, dtype=torch.int64, device=images.device)
    for _ in range(copies):
        noisy = images + sigma * _noise(images, law, generator)
        counts.scatter_add_(1, answers(noisy)[:, None], torch.ones_like(counts[:, :1]))
    return Level(sigma, counts.cpu().numpy())


def _noise(images: Tensor, law: Law, generator: torch.Generator) -> Tensor:
    """Of standard deviation 1."""
    if law.name == "gaussian":
        return torch.empty_like(images).normal_(generator=generator)
    if law.name == "uniform":
        return torch.empty_like(images).uniform_(-(3**0.5), 3**0.5, generator=generator)
    # Laplace: the difference of two exponential numbers
    one, other = (torch.empty_like(images).exponential_(generator=generator) for _ in range(2))
    return (one - other) / 2**0.5


def best_sigma(
    levels: Sequence[Level], labels: NDArray[np.int64], n: int, alpha: float, law: Law
) -> float | None:
    """The level whose ACR is most above that of a classifier with one answer; None if it is nowhere."""
    gains = {
        level.sigma: level.expected(labels, n, alpha, law)[1]
        - level.one_class_acr(labels, n, alpha, law)
        for level in levels
        if level.beats_one_class(labels, n, alpha, law)
    }
    best = max(gains, key=lambda sigma: gains[sigma], default=None)
    return best if best is not None and gains[best] > 0 else None
