"""SmoothMix: mix each image with an unrestricted adversarial one, and its answer with the uniform one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.attacks.ascent import NO_OFFSET, ascend, smoothed_gradient
from smoothcert.attacks.constraints import Clamp, Within
from smoothcert.attacks.objectives import frozen, noisy_logits
from smoothcert.methods.base import Batch, Losses, Method, Progress, check_domain, draw_noise


@dataclass(frozen=True)
class SmoothMix(Method):
    """Jeong et al.: SmoothMix: Training Confidence-calibrated Smoothed Classifiers (arXiv:2111.09277).

    With the equation numbers of the workshop version:
    x~(t+1) = x~(t) + alpha * grad J / ||grad J|| (eqs. 7, 8), T times from x, then with lambda ~ U[0, 1/2] an image
    x_mix = (1 - lambda) x + lambda x~(T) and y_mix = (1 - lambda) Fhat(x) + lambda / C (eqs. 9, 10), and
    L = mean_{b,i} CE(F(x + delta_i), y) + eta * mean_{b,i} 1(argmax Fhat(x) = y) KL(y_mix || F(x_mix + delta_i))
    (eqs. 11, 12; algorithm 1). The noises are the same everywhere; `alpha` is an l2 length in the [0,1] image.

    `one_step` puts x~(1) in the place of x ("one-step adversary"), drawn back to a ball of `one_step_radius` (default:
    alpha) around x; `max_norm` restricts all x~ to a ball (supplement, table 10).

    Where the papers and the code differ the code is followed: a divergence to y_mix, through which gradients pass, in
    place of the cross-entropy; only correctly answered images count in it, though the mean is over all; eta and the
    one-step radius grow over `warmup` epochs; every attack step is clamped to [0,1]. Exception: with T = 1 the code
    leaves x' = x whatever is asked; `one_step` here means x~(1) then too, as the ImageNet rows describe.

    `as_printed` has none of these: CE(F(x_mix + delta_i), y_mix) over all images, a constant eta,
    steps of g / ||g|| wherever they lead, x~(1) as it is or drawn back to `one_step_radius`, and
    one optimiser step per batch. No gradient passes through y_mix, which the text has for a label
    of augmented data: a cross-entropy that moves its own label ends in one answer for all images.
    """

    noises: int = 4
    eta: float = 5.0
    alpha: float = 1.0
    steps: int = 4
    one_step: bool = False
    one_step_radius: float | None = None
    max_norm: float | None = None
    warmup: int = 10
    as_printed: bool = False

    def __post_init__(self) -> None:
        radii = [
            name for name in ("one_step_radius", "max_norm") if getattr(self, name) is not None
        ]
        check_domain(
            self, positive=["alpha", *radii], counts=["noises", "steps", "warmup"], weights=["eta"]
        )

    @property
    def chunks(self) -> int:
        return 1 if self.as_printed else self.noises

    def loss(self, model: nn.Module, batch: Batch, sigma: float, progress: Progress) -> Losses:
        ramp = 1.0 if self.as_printed else progress.ramp(self.warmup)
        noise = draw_noise(batch, sigma, self.noises)  # [m, B, C, H, W]
        lam = 0.5 * batch.draw(torch.rand, batch.labels.shape)  # [B]
        start, end = self._attack(model, batch, noise, ramp)

        logits = noisy_logits(model, start, noise)  # [m, B, classes]
        cross_entropy = F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(self.noises))
        answer = logits.softmax(-1).mean(0)  # [B, classes], with its gradient

        lam_x, lam_y = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
        log_probs = noisy_logits(model, (1 - lam_x) * start + lam_x * end, noise).log_softmax(-1)
        target = (1 - lam_y) * answer + lam_y / answer.shape[-1]
        if self.as_printed:
            mix = -(target.detach() * log_probs).sum(-1).mean()
        else:
            divergence = (target * (target.clamp(min=1e-20).log() - log_probs)).sum(-1)  # [m, B]
            mix = (divergence * (answer.argmax(-1) == batch.labels)).mean()
        return Losses(
            cross_entropy + self.eta * ramp * mix, {"cross_entropy": cross_entropy, "mix": mix}
        )

    def _attack(
        self, model: nn.Module, batch: Batch, noise: Tensor, ramp: float
    ) -> tuple[Tensor, Tensor]:
        """x' and x~(T)."""
        images, gradient = batch.images, smoothed_gradient(model, batch.labels, noise)
        clamp: Clamp = "never" if self.as_printed else "last"
        climb = partial(
            ascend,
            gradient,
            step=self.alpha,
            constrain=Within(images, self.max_norm, clamp),
            offset=NO_OFFSET if self.as_printed else 1e-8,
        )
        with frozen(model):
            first = climb(images, steps=1)
            last = climb(first, steps=self.steps - 1)
        if not self.one_step:
            return images, last
        radius = self.one_step_radius or (None if self.as_printed else self.alpha)
        return Within(images, radius and ramp * radius, clamp)(first), last
