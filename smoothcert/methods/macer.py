"""MACER: maximise the certified radius of the soft smoothed classifier directly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothcert.attacks.objectives import label_probabilities, noisy_logits
from smoothcert.methods.base import Batch, Losses, Method, Progress, check_domain, draw_noise


@dataclass(frozen=True)
class Macer(Method):
    """Zhai et al.: MACER: Attack-free and Scalable Robust Training via Maximizing Certified Radius (arXiv:2001.02378).

    L = (1/B) sum_b [ -log( mean_i softmax(z_bi)_y + 1e-10 ) + lam * sigma/2 * (gamma - xi_b) 1(b kept) ], with
    q_b = mean_i softmax(beta z_bi), its two largest values q1 >= q2 and xi_b = Phi^-1(q1) - Phi^-1(q2). An image is
    kept in the second term if q_b answers with its label, xi_b is finite and |xi_b| <= gamma.
    `as_printed` is equation 8 of the Consistency supplement (arXiv:2006.04062), with the radius
    CR_b = sigma/2 xi_b (its eq. 6) in place of xi_b: lam * sigma/2 * max(0, gamma - CR_b).

    As in the published code: Phi^-1 goes through erfinv in the network's precision, so that float32 probabilities
    within 3e-8 of 0 or 1 give an infinite xi and drop out; the sum is divided by B, not by the number kept; a loaded
    batch is one step of B * noises inputs. For the first `deferred` epochs lam is 0 (31 on MNIST, where the other
    papers' code waits for the first drop of the learning rate without their texts saying so).
    """

    noises: int = 16
    lam: float = 12.0
    beta: float = 16.0
    gamma: float = 8.0
    deferred: int = 0
    as_printed: bool = False

    def __post_init__(self) -> None:
        check_domain(
            self, positive=["beta", "gamma"], counts=["noises"], weights=["lam", "deferred"]
        )

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        logits = noisy_logits(
            model, batch.images, draw_noise(batch, sigma, self.noises)
        )  # [k, B, classes]
        classification = -(label_probabilities(logits, batch.labels).mean(0) + 1e-10).log().mean()
        if not progress.reached(self.deferred) or self.lam == 0:
            return Losses(
                classification,
                {"cross_entropy": classification, "robust": torch.zeros_like(classification)},
            )
        unit = sigma / 2 if self.as_printed else 1.0  # of the margin
        robust = sigma / 2 * self._shortfall(logits, batch.labels, unit).mean()
        return Losses(
            classification + self.lam * robust, {"cross_entropy": classification, "robust": robust}
        )

    def _shortfall(self, logits: Tensor, labels: Tensor, unit: float) -> Tensor:
        """gamma - unit * xi of the images that are kept, 0 for the others: [B]."""
        values, answers = (self.beta * logits).softmax(-1).mean(0).topk(2)  # [B, 2] each
        margin = unit * _margin(*values.detach().unbind(1))
        dropped = (answers[:, 0] != labels) | ~(margin.abs() <= self.gamma)  # infinite ones too
        # what is dropped is replaced before Phi^-1: masked after it, an infinite slope would still give NaN
        first, second = (q.masked_fill(dropped, 0.5) for q in values.unbind(1))
        return (self.gamma - unit * _margin(first, second)).masked_fill(dropped, 0.0)


def _margin(first: Tensor, second: Tensor) -> Tensor:
    """Phi^-1(q1) - Phi^-1(q2), [B]."""
    return math.sqrt(2.0) * (torch.erfinv(2 * first - 1) - torch.erfinv(2 * second - 1))
