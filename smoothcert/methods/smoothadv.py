"""SmoothAdv: train on noisy copies of images that were attacked as inputs of the smoothed classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.attacks.ascent import GradientName, pgd
from smoothcert.attacks.ddn import ddn
from smoothcert.attacks.objectives import noisy_logits
from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress, check_domain, draw_noise


@dataclass(frozen=True)
class SmoothAdv(Method):
    """Salman et al.: Provably Robust Deep Learning via Adversarially Trained Smoothed Classifiers (arXiv:1906.04584).

    L = mean_{b,i} CE(z(x^_b + delta_bi), y_b), where x^_b maximises -log (1/m) sum_i softmax(z(x' + delta_bi))_y over
    ||x' - x_b|| <= epsilon (eqs. S, 6; pseudocode 1) and the noises are the same in attack and loss. `attack`: "pgd"
    (eq. 6), "expected" (eq. 4, of which the paper warns), "stein" (gradient-free, eq. 7), "ddn";
    `beta` is the inverse temperature of appendix B (eq. 16), in the attack only. `epsilon` is in
    units of the [0,1] image: the code's 255 means 255/256 = 0.99609375.

    `noise` gives the baselines of appendix C.1: "training" attacks the network itself and adds noise only to train
    (vanilla PGD + noise), "none" adds none at all (vanilla PGD; sigma is then only the level to certify with).
    `multitrain` off trains on the first noisy copy alone, one step per batch.

    Where paper and code differ the code is followed: the warm-up starts at epsilon / `warmup`, not at 0, and DDN's norm
    at the warmed-up epsilon, not at 1. The code runs plain PGD for gradient-free steps with one noise; refused here.

    `as_printed`: epsilon is 0 in the first epoch; DDN starts from norm 1 and at rate 1; PGD has the
    ball alone, not [0,1]; and one optimiser step is taken on the m copies of the whole batch.
    """

    noises: int = 4
    epsilon: float = 1.0
    steps: int = 10
    warmup: int = 10
    attack: Literal["pgd", "expected", "ddn", "stein"] = "pgd"
    beta: float = 1.0
    gamma: float = 0.05
    noise: Literal["both", "training", "none"] = "both"
    multitrain: bool = True
    as_printed: bool = False

    def __post_init__(self) -> None:
        check_domain(
            self,
            positive=["beta", "gamma"],
            counts=["noises", "steps", "warmup"],
            weights=["epsilon"],
        )
        if self.gamma >= 1:
            raise ConfigError(
                f"SmoothAdv needs gamma, DDN's change of norm, below 1, found {self.gamma}"
            )
        if self.attack == "stein" and (self.noise != "both" or self.noises < 2):
            raise ConfigError(
                "SmoothAdv's attack 'stein' learns from how answers vary with the noise: it needs noise 'both' and "
                f"noises >= 2, found {self.noise!r} and {self.noises}"
            )
        if self.noise == "none" and self.noises > 1:
            raise ConfigError(
                f"without noise all copies of an image are equal: give noises 1, found {self.noises}"
            )

    @property
    def chunks(self) -> int:
        return self.noises if self.multitrain and not self.as_printed else 1

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        noise = draw_noise(
            batch, 0.0 if self.noise == "none" else sigma, self.noises
        )  # [m, B, C, H, W]
        images = self._attack(
            model, batch, noise if self.noise == "both" else torch.zeros_like(noise[:1]), progress
        )
        kept = noise if self.multitrain else noise[:1]
        logits = noisy_logits(model, images, kept)
        return Losses(F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(len(kept))))

    def _attack(self, model: nn.Module, batch: Batch, noise: Tensor, progress: Progress) -> Tensor:
        where = (model, batch.images, batch.labels, noise)
        epsilon = self.epsilon * progress.ramp(self.warmup, self.as_printed)

        def random(like: Tensor) -> Tensor:
            return batch.draw(torch.randn, like.shape)

        if self.attack == "ddn":
            return ddn(
                *where,
                epsilon=epsilon,
                steps=self.steps,
                gamma=self.gamma,
                beta=self.beta,
                start=1.0 if self.as_printed else None,
                generator=random,
                as_printed=self.as_printed,
            )
        gradient: GradientName = "smoothed" if self.attack == "pgd" else self.attack
        return pgd(
            *where,
            epsilon=epsilon,
            steps=self.steps,
            beta=self.beta,
            gradient=gradient,
            generator=random,
            as_printed=self.as_printed,
        )
