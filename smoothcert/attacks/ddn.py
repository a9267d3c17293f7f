"""DDN, the attack on smoothed classifiers that looks for the nearest adversarial image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from smoothcert.attacks.ascent import NO_OFFSET, Source, unit
from smoothcert.attacks.constraints import norms, project
from smoothcert.attacks.objectives import frozen, majority, noisy_logits, smoothed_nll


def ddn(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    noise: Tensor,
    *,
    epsilon: float,
    steps: int,
    generator: Source,
    gamma: float = 0.05,
    beta: float = 1.0,
    start: float | None = None,
    rounded: bool = True,
    as_printed: bool = False,
) -> Tensor:
    """SmoothAdv-DDN: the nearest image found whose noisy copies do not vote for its label, at most epsilon away.

    Decoupled direction and norm (Rony et al., arXiv:1811.09600): each step turns the perturbation by a cosine-annealed
    rate, then shrinks (adversarial) or grows (not) its norm by gamma, on the 256 grey levels. The norm starts at
    `start`: 1 in the DDN paper and in SmoothAdv's evaluation, epsilon (the default) in SmoothAdv's training. As in its
    published code the last iterate is not tested: an image whose label no earlier iterate changed comes back as it was.
    What was drawn back to the sphere is `rounded` to grey levels, which may lead out of it again.

    The code's rates end at 0.01 and begin below 1: with T = 2 they are 0.505 and 0.01. `as_printed`
    they go from 1 to 0.01 (appendix D), and no direction is random.
    """
    furthest = norms(torch.maximum(images, 1 - images))  # within [0,1] no perturbation is longer
    d = best = torch.zeros_like(images)
    rho, best_norm = torch.full_like(furthest, epsilon if start is None else start), furthest
    with frozen(model):
        for t in range(steps):
            passed = t / max(steps - 1, 1) if as_printed else (t + 1) / steps
            rate = 0.01 + 0.99 * (1 + math.cos(math.pi * passed)) / 2
            with torch.enable_grad():
                point = (images + d).detach().requires_grad_()
                logits = noisy_logits(model, point, noise)
                gradient = torch.autograd.grad(smoothed_nll(logits, labels, beta).sum(), point)[0]
            adversarial = (majority(logits) != labels).view_as(furthest)
            closer = adversarial & (norms(d) < best_norm)
            best, best_norm = torch.where(closer, d, best), torch.where(closer, norms(d), best_norm)
            d = d + rate * unit(gradient, None if as_printed else generator, NO_OFFSET)
            rho = torch.minimum(
                torch.where(adversarial, rho * (1 - gamma), rho * (1 + gamma)), furthest
            )
            d = d * (rho / norms(d).clamp(min=1e-30))
            d = to_grey_levels(images + d).clamp(0.0, 1.0) - images
    found = images + project(best, torch.zeros_like(best), epsilon)
    return to_grey_levels(found) if rounded else found


def ddn_test_gamma(epsilon: float, steps: int) -> float:
    """SmoothAdv's gamma for DDN as a test: T shrinkings take the norm from epsilon to 1.5 / 255."""
    return float(1 - (3 / 510 / epsilon) ** (1 / steps))


def to_grey_levels(images: Tensor) -> Tensor:
    """The nearest images with 256 grey levels."""
    return (images * 255).round() / 255
