"""CAT-RS: train on the easiest noises of uncertain images, and on worst-case noise of certain ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.attacks.ascent import NO_OFFSET, ascend, input_gradient
from smoothcert.attacks.constraints import GaussianLike, Within, with_moments_of
from smoothcert.attacks.objectives import divergence, frozen, noisy_logits
from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress, check_domain, draw_noise


@dataclass(frozen=True)
class CatRs(Method):
    """Jeong, Kim, Shin: Confidence-aware Training of Smoothed Classifiers for Certified Robustness (arXiv:2212.09000).

    L = L_low + lam * 1(K+ = M) * L_high (eq. 8; algorithm 1), with K ~ Bin(M, share of the M noisy copies answered with
    y), K+ = max(1, K), L_low = (1/M) sum of the K+ smallest CE(F(x + delta_i), y) (eq. 6) and
    L_high = max_i KL(yhat || F(x + n_i)) (eq. 7): n_i is delta_i after T steps of 2 epsilon / T up that divergence,
    kept within epsilon of delta_i. yhat is the image's soft label (eq. 10). For ImageNet `count_from`
    "soft-labels" draws K from yhat_y instead, and epsilon doubles from epoch `double_from` on (appendix D.4).

    Ablations. Table 8: lam 0 (a); `mask` off with `low` "none" (b), "mean" (c), "bottom-k" (d). Table 9: `high` "mean"
    (a); `target` "mean", the answer averaged over the copies, here without its gradient (b), or "label" (c).

    As in the published code: the text's KL(F, yhat) means KL(yhat || F); after each step the noise gets
    its mean back, and as scale its root mean square about 0, not its standard deviation; no clamp to [0,1].

    `as_printed`: mean and standard deviation are given back to the noise that was found, after T
    steps of g / ||g|| in the ball (appendix C.4); one optimiser step per batch; and soft labels are
    votes on the image itself (training/soft_labels.py). KL stays, since KL(F || yhat) is infinite
    where a soft label is 0. L_base over M noises is `low` "mean" with lam 0.
    """

    noises: int = 4
    lam: float = 1.0
    epsilon: float = 1.0
    steps: int = 4
    count_from: Literal["votes", "soft-labels"] = "votes"
    double_from: int | None = None
    low: Literal["bottom-k", "mean", "none"] = "bottom-k"
    high: Literal["max", "mean"] = "max"
    target: Literal["soft-labels", "mean", "label"] = "soft-labels"
    mask: bool = True
    as_printed: bool = False

    def __post_init__(self) -> None:
        epoch = [] if self.double_from is None else ["double_from"]
        check_domain(self, counts=["noises", "steps"], weights=["lam", "epsilon", *epoch])
        if self.low == "none" and self.lam == 0:
            raise ConfigError("CatRs with low 'none' and lam 0 has no loss left: give one of them")

    @property
    def chunks(self) -> int:
        return 1 if self.as_printed else self.noises

    @property
    def uses_soft_labels(self) -> bool:
        return self.count_from == "soft-labels" or (self.lam > 0 and self.target == "soft-labels")

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        noise = draw_noise(batch, sigma, self.noises)  # [M, B, C, H, W]
        logits = noisy_logits(model, batch.images, noise)  # [M, B, classes]
        kept = self._count(logits.detach(), batch)  # [B]
        losses = F.cross_entropy(
            logits.flatten(0, 1), batch.labels.repeat(self.noises), reduction="none"
        )
        ordered = losses.view(self.noises, -1).sort(0).values  # [M, B], the easiest first
        rank = torch.arange(self.noises, device=kept.device)[:, None]
        easy = ordered * (rank < kept) if self.low == "bottom-k" else ordered
        low = easy.mean(0).mean()  # over M, not over K+
        if self.lam == 0:
            return Losses(low, {"low": low})
        target = self._target(logits.detach(), batch)
        doubled = self.double_from is not None and progress.reached(self.double_from)
        worst = self._worst_noise(
            model, batch.images, noise, target, self.epsilon * (2 if doubled else 1)
        )
        each = divergence(noisy_logits(model, batch.images, worst), target)  # [M, B]
        high = each.amax(0) if self.high == "max" else each.mean(0)
        high = (high * (kept == self.noises) if self.mask else high).mean()
        total = self.lam * high if self.low == "none" else low + self.lam * high
        return Losses(total, {"low": low, "high": high})

    def _count(self, logits: Tensor, batch: Batch) -> Tensor:
        """K+ of each image, [B]."""
        if self.count_from == "votes":
            share = (logits.argmax(-1) == batch.labels).float().mean(0)
        else:
            share = _soft_labels(batch).gather(1, batch.labels[:, None])[:, 0]
        throws = batch.draw(torch.rand, (self.noises, len(share)), images=1)
        return (throws < share).sum(0).clamp(min=1)

    def _target(self, logits: Tensor, batch: Batch) -> Tensor:
        if self.target == "soft-labels":
            return _soft_labels(batch).to(logits.dtype)
        if self.target == "mean":
            return logits.softmax(-1).mean(0)
        return torch.zeros_like(logits[0]).scatter_(1, batch.labels[:, None], 1.0)

    def _worst_noise(
        self, model: nn.Module, images: Tensor, noise: Tensor, target: Tensor, epsilon: float
    ) -> Tensor:
        """The noises after the attack, each on its own, [M, B, C, H, W]."""
        flat = noise.flatten(0, 1)  # [M * B, C, H, W]

        def objective(point: Tensor) -> Tensor:
            return divergence(noisy_logits(model, images, point.view_as(noise)), target)

        # the code adds 1e-8 to the gradient of a mean over noises
        offset = NO_OFFSET if self.as_printed else 1e-8 * self.noises
        with frozen(model):
            found = ascend(
                input_gradient(objective),
                flat,
                steps=self.steps,
                step=2 * epsilon / self.steps,
                constrain=Within(flat, epsilon, "never")
                if self.as_printed
                else GaussianLike(flat, epsilon),
                offset=offset,
            )
        return (with_moments_of(flat, found) if self.as_printed else found).view_as(noise)


def _soft_labels(batch: Batch) -> Tensor:
    if batch.soft_labels is None:
        raise ConfigError(
            "CatRs reads soft labels, which this batch does not have: `fit` makes them"
        )
    return batch.soft_labels
