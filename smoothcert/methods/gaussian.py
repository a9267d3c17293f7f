"""Gaussian noise augmentation: the training that made randomized smoothing work."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn import functional as F

from smoothcert.methods.base import Batch, Losses, Method, Progress, noisy_copies


@dataclass(frozen=True)
class Gaussian(Method):
    """Cohen, Rosenfeld, Kolter: Certified Adversarial Robustness via Randomized Smoothing (arXiv:1902.02918), sec. 3.3.

    L = mean_b CE(f(x_b + delta_b), y_b), one fresh delta_b ~ N(0, sigma^2 I) per image and step. No deviation.
    """

    as_printed: bool = False  # changes nothing here

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        return Losses(F.cross_entropy(model(noisy_copies(batch, sigma, 1)), batch.labels))
