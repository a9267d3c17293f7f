"""Stability training: the noisy image should be answered like the clean one."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn import functional as F

from smoothcert.methods.base import Batch, Losses, Method, Progress, check_domain, noisy_copies


@dataclass(frozen=True)
class Stability(Method):
    """Li, Chen, Wang, Carin: Certified Adversarial Robustness with Additive Noise (arXiv:1809.03113).

    L = mean_b [ CE(z(x_b), y_b) - lam * sum_c softmax(z(x_b))_c log softmax(z(x_b + delta_b))_c ], as the code of
    Consistency, SmoothMix and CAT-RS has it, from which all published rows come: the label is for the clean image
    alone, the second term is a cross-entropy and not a divergence, gradients pass through both of its factors, and the
    clean and the noisy batch go through the network one after the other, so BatchNorm sees them apart. Large `lam`
    collapses to a constant answer: on CIFAR-10 from 5 on, at sigma 1 in part from 2.
    """

    lam: float = 2.0
    as_printed: bool = False  # changes nothing here

    def __post_init__(self) -> None:
        check_domain(self, weights=["lam"])

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        clean = model(batch.images)  # [B, classes]
        noisy = model(noisy_copies(batch, sigma, 1))
        cross_entropy = F.cross_entropy(clean, batch.labels)
        stability = -(clean.softmax(-1) * noisy.log_softmax(-1)).sum(-1).mean()
        total = cross_entropy + self.lam * stability
        return Losses(total, {"cross_entropy": cross_entropy, "stability": stability})
