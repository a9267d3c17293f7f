"""Sun et al.: ignore hard images, and train on worst-case noise of the easy ones, for the sake of the ACR alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from scipy.special import ndtri
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.attacks.objectives import noisy_logits
from smoothcert.attacks.sphere import sphere_attack
from smoothcert.errors import ConfigError
from smoothcert.methods.base import (
    Batch,
    Losses,
    Method,
    Progress,
    Shares,
    check_domain,
    draw_noise,
)
from smoothcert.statistics.bounds import lower_bound

DISCARD_COPIES, WEIGHT_COPIES = 100, 16


@dataclass(frozen=True)
class Sun(Method):
    """Sun, Mao, Müller, Vechev: Average Certified Radius is a Poor Metric for Randomized Smoothing (arXiv:2410.06895).

    L = mean_{b,i} CE(z(x_b + delta_bi), y_b) over m noises of each image. The first `deferred` epochs are Gaussian
    training. From then on, all three at once:

    Discarding, once: images of which less than `threshold` of 100 noisy copies are answered with the label are never
    seen again. `discard_by` "soft-labels" takes the share from soft labels instead (ImageNet, where `deferred` is 0).
    Reweighting, every `reweight_every` epochs: the images that are left are drawn, with replacement, with weights
    Phi^-1(lower bound of k/16), where k of 16 noisy copies are answered with the label, at least 12, and the bound is
    Clopper-Pearson's at alpha 0.1. Without it (null) they are drawn with equal weights.
    Attack: each noise is moved by up to `steps` steps of length `epsilon` (attacks/sphere.py).

    The paper shows by this method that the ACR rewards ignoring hard images. It answers fewer of them than others do:
    never report its ACR without the whole curve. Shares are of one augmented view of each image, as in the code.
    """

    noises: int = 4
    deferred: int = 60
    threshold: float = 0.5
    steps: int = 3
    epsilon: float = 0.25
    reweight_every: int | None = 10
    discard_by: Literal["votes", "soft-labels"] = "votes"

    def __post_init__(self) -> None:
        every = [] if self.reweight_every is None else ["reweight_every"]
        check_domain(
            self, counts=["noises", "steps", *every], weights=["deferred", "threshold", "epsilon"]
        )
        if self.threshold > 1:
            raise ConfigError(
                f"Sun needs threshold, a share of noisy copies, from 0 to 1, found {self.threshold!r}"
            )

    @property
    def chunks(self) -> int:
        return self.noises

    @property
    def uses_soft_labels(self) -> bool:
        return self.discard_by == "soft-labels"

    def sampling(self, progress: Progress, before: Tensor | None, shares: Shares) -> Tensor | None:
        since = progress.epoch - self.deferred
        if since < 0:
            return None
        kept = self._kept(shares) if before is None or since == 0 else before > 0
        if self.reweight_every is None:
            return kept.double()
        if before is None or since % self.reweight_every == 0:
            return reweighted(shares.of_copies(WEIGHT_COPIES)) * kept
        return before

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        noise = draw_noise(batch, sigma, self.noises)  # [m, B, C, H, W]
        if progress.reached(self.deferred):
            where = (model, batch.images, batch.labels, noise)
            noise = sphere_attack(*where, epsilon=self.epsilon, steps=self.steps)
        logits = noisy_logits(model, batch.images, noise).flatten(0, 1)
        return Losses(F.cross_entropy(logits, batch.labels.repeat(self.noises)))

    def _kept(self, shares: Shares) -> Tensor:
        by_votes = self.discard_by == "votes"
        p = shares.of_copies(DISCARD_COPIES) if by_votes else shares.of_soft_labels()
        kept = p >= self.threshold
        if not kept.any():
            raise ConfigError(
                f"Sun would discard every image: none has {self.threshold:g} of its noisy copies answered with the "
                f"label, at most {float(p.max()):g} are. Give a lower threshold, or train longer before (deferred)"
            )
        return kept


def reweighted(p: Tensor) -> Tensor:
    """The weights of images by the share of their 16 noisy copies that is answered with the label."""
    k = (WEIGHT_COPIES * p.double().clamp(0.75, 1.0)).floor()
    return torch.from_numpy(ndtri(lower_bound(k.numpy(), WEIGHT_COPIES, 0.1)))
