"""Consistency regularisation: noisy copies of an image should agree with their mean."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn import functional as F

from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress, noisy_copies


@dataclass(frozen=True)
class Consistency(Method):
    """Jeong, Shin: Consistency Regularization for Certified Robustness of Smoothed Classifiers (arXiv:2006.04062).

    L = mean_{b,i} CE(F_bi, y_b) + mean_b [ lam * (1/m) sum_i KL(Fbar_b || F_bi) + eta * H(Fbar_b) ], where F_bi is the
    softmax on the i-th of m noisy copies and Fbar_b their mean. As in the published code nothing is detached:
    gradients pass through Fbar in both terms, and the entropy's logarithm is clamped at 1e-20.
    """

    noises: int = 2
    lam: float = 10.0
    eta: float = 0.5

    def __post_init__(self) -> None:
        if self.noises < 2:
            raise ConfigError(f"consistency compares noisy copies of an image: noises >= 2, found {self.noises}")
        if self.lam < 0 or self.eta < 0:
            raise ConfigError(f"consistency needs lam >= 0 and eta >= 0, found lam={self.lam}, eta={self.eta}")

    @property
    def chunks(self) -> int:
        return self.noises

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        logits = model(noisy_copies(batch, sigma, self.noises))  # [m * B, classes]
        cross_entropy = F.cross_entropy(logits, batch.labels.repeat(self.noises))
        log_probs = F.log_softmax(logits.unflatten(0, (self.noises, -1)), dim=-1)  # [m, B, classes]
        mean = log_probs.exp().mean(0)  # [B, classes]
        log_mean = mean.clamp(min=1e-20).log()
        divergence = (mean * (log_mean - log_probs)).sum(-1).mean()  # over copies and images
        entropy = -(mean * log_mean).sum(-1).mean()
        total = cross_entropy + self.lam * divergence + self.eta * entropy
        return Losses(total, {"cross_entropy": cross_entropy, "divergence": divergence, "entropy": entropy})
