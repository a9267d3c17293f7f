"""Consistency regularisation: noisy copies of an image should agree with their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.attacks.ascent import NO_OFFSET, ascend, smoothed_gradient
from smoothcert.attacks.constraints import Clamp, Within
from smoothcert.attacks.objectives import frozen, noisy_logits
from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress, check_domain, draw_noise


@dataclass(frozen=True)
class Consistency(Method):
    """Jeong, Shin: Consistency Regularization for Certified Robustness of Smoothed Classifiers (arXiv:2006.04062).

    L = mean_{b,i} CE(F_bi, y_b) + mean_b [ lam * (1/m) sum_i KL(Fbar_b || F_bi) + eta * H(Fbar_b) ], where F_bi is the
    softmax on the i-th of m noisy copies and Fbar_b their mean. As in the published code nothing is detached:
    gradients pass through Fbar in both terms, and the entropy's logarithm is clamped at 1e-20.

    `form` has the alternatives of the supplement's table 4: "kl" leaves the entropy out, "xent" is lam * (KL + H),
    "mse" is lam * ||F_b1 - F_b2||^2 of the first two copies.

    `base` "smoothadv" first attacks the images as SmoothAdv does (supplement, eq. 4), on the same noises and with the
    same objective and steps of 2 epsilon / T, but in this paper's own way: g / (||g|| + 1e-8), the projection before
    the clamp to [0,1], and no random direction where the gradient is 0. `epsilon` warms up from epsilon / `warmup`,
    as in the code. `as_printed`: from 0, by g / ||g|| in the ball alone, and one step per batch.
    """

    noises: int = 2
    lam: float = 10.0
    eta: float = 0.5
    form: Literal["kl+entropy", "kl", "xent", "mse"] = "kl+entropy"
    base: Literal["gaussian", "smoothadv"] = "gaussian"
    epsilon: float = 1.0
    steps: int = 10
    warmup: int = 10
    as_printed: bool = False

    def __post_init__(self) -> None:
        check_domain(self, counts=["steps", "warmup"], weights=["lam", "eta", "epsilon"])
        if self.noises < 2:
            raise ConfigError(
                f"Consistency compares noisy copies of an image: noises >= 2, found {self.noises}"
            )

    @property
    def chunks(self) -> int:
        return 1 if self.as_printed else self.noises

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        noise = draw_noise(batch, sigma, self.noises)  # [m, B, C, H, W]
        images = (
            batch.images if self.base == "gaussian" else self._attack(model, batch, noise, progress)
        )
        log_probs = F.log_softmax(noisy_logits(model, images, noise), dim=-1)  # [m, B, classes]
        cross_entropy = F.nll_loss(log_probs.flatten(0, 1), batch.labels.repeat(self.noises))
        mean = log_probs.exp().mean(0)  # [B, classes]
        log_mean = mean.clamp(min=1e-20).log()
        divergence = (mean * (log_mean - log_probs)).sum(-1).mean()  # over copies and images
        entropy = -(mean * log_mean).sum(-1).mean()
        match self.form:
            case "kl+entropy":
                regulariser = self.lam * divergence + self.eta * entropy
            case "kl":
                regulariser = self.lam * divergence
            case "xent":
                regulariser = self.lam * (divergence + entropy)
            case "mse":
                first, second, *_ = log_probs.exp()
                regulariser = self.lam * (first - second).square().sum(-1).mean()
        terms = {"cross_entropy": cross_entropy, "divergence": divergence, "entropy": entropy}
        return Losses(cross_entropy + regulariser, terms)

    def _attack(self, model: nn.Module, batch: Batch, noise: Tensor, progress: Progress) -> Tensor:
        epsilon = self.epsilon * progress.ramp(self.warmup, self.as_printed)
        clamp: Clamp = "never" if self.as_printed else "last"
        # the code adds 1e-8 to the gradient of a mean over images
        offset = NO_OFFSET if self.as_printed else 1e-8 * batch.total
        with frozen(model):
            return ascend(
                smoothed_gradient(model, batch.labels, noise),
                batch.images,
                steps=self.steps,
                step=2 * epsilon / self.steps,
                constrain=Within(batch.images, epsilon, clamp),
                offset=offset,
            )
