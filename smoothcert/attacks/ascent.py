"""Attacks on smoothed classifiers: gradient ascent in its published variants, and the gradient-free estimate.

Pure functions on batches: images [B, C, H, W] in [0,1], labels [B], noise [m, B, C, H, W] that the caller drew, and a
generator where an attack draws. No step waits for the device or branches on its values. The same noise serves every
step of an attack, and in training the loss after it:

    noise = sigma * torch.randn(m, *images.shape, generator=generator)
    found = pgd(model, images, labels, noise, epsilon=0.5, steps=20, generator=generator)

Equation numbers are those of SmoothAdv (Salman et al., arXiv:1906.04584) where no other paper is named.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from smoothcert.attacks.constraints import GaussianLike, Within, norms
from smoothcert.attacks.objectives import (
    by_kernels,
    frozen,
    label_probabilities,
    label_votes,
    noisy_logits,
    smoothed_nll,
)

Objective = Callable[[Tensor], Tensor]  # points [B, ...] -> a loss for each point [B]
Gradient = Callable[[Tensor], Tensor]  # points [B, ...] -> directions of ascent [B, ...], of any length
Constraint = Callable[[Tensor], Tensor]  # points [B, ...] -> the allowed points that stand for them [B, ...]
Source = torch.Generator | Callable[[Tensor], Tensor]  # of N(0, I): a generator, or a tensor -> numbers of its shape


def input_gradient(objective: Objective) -> Gradient:
    """The gradient of an objective at each point, by one backward pass of the sum over points."""

    def gradient(point: Tensor) -> Tensor:
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            losses = objective(point)
            return torch.autograd.grad(losses, point, torch.ones_like(losses))[0]

    return gradient


def smoothed_gradient(model: nn.Module, labels: Tensor, noise: Tensor, beta: float = 1.0) -> Gradient:
    """The plug-in estimate of the gradient of J at a point (eq. 6)."""
    return input_gradient(lambda point: smoothed_nll(noisy_logits(model, point, noise), labels, beta))


def stein_gradient(
    model: nn.Module, labels: Tensor, noise: Tensor, beta: float = 1.0, *, hard: bool = False
) -> Gradient:
    """-(1/m) sum_i F(x + delta_i)_y delta_i, by forwards alone: Stein's lemma (eq. 7) up to 1/sigma^2.

    F is the softmax of the logits. If `hard`, it is 1 where the label is the answer and 0 elsewhere, so that the
    smoothed hard classifier itself is attacked, and nothing but answers is asked of the network.
    """

    @torch.no_grad()
    def gradient(point: Tensor) -> Tensor:
        logits = noisy_logits(model, point, noise)
        p = label_votes(logits, labels) if hard else label_probabilities(logits, labels, beta)  # [m, B]
        return -(p.view(*p.shape, *[1] * (noise.ndim - 2)) * noise).mean(0)

    return gradient


def unit(gradient: Tensor, generator: Source | None = None, offset: float = 1e-8) -> Tensor:
    """g / (||g|| + offset) for each sample; with a generator, g / ||g||, and a vector of N(0, I) where g is exactly 0.

    The first is the rule of the attacks in Consistency, SmoothMix and CAT-RS, the second that of SmoothAdv, whose
    random vector is not normalised.
    """
    length = norms(gradient)
    if generator is None:
        return gradient / (length + offset)
    return torch.where(length == 0, _gaussian(gradient, generator), gradient / length)


def _gaussian(like: Tensor, generator: Source) -> Tensor:
    if not isinstance(generator, torch.Generator):
        return generator(like)
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def ascend(
    gradient: Gradient,
    start: Tensor,
    *,
    steps: int,
    step: float,
    constrain: Constraint,
    generator: Source | None = None,
    offset: float = 1e-8,
) -> Tensor:
    """`steps` times: a step of length `step` up the gradient, then the constraint. Directions are those of `unit`."""
    point = start.detach()
    for _ in range(steps):
        point = _step_up(point, gradient(point), step, constrain, generator, offset).detach()
    return point


def _step_up(
    point: Tensor,
    gradient: Tensor,
    step: float,
    constrain: Constraint,
    generator: Source | None,
    offset: float,
) -> Tensor:
    # exactly these classes: a subclass may have another rule
    if type(constrain) not in (Within, GaussianLike) or not by_kernels(point, point.shape[1:].numel()):
        return constrain(point + step * unit(gradient, generator, offset))
    from smoothcert.attacks.fused import step_up

    random = None if generator is None else _gaussian(gradient, generator)
    return step_up(point, gradient, constrain, step=step, offset=offset, random=random)


def pgd(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    noise: Tensor,
    *,
    epsilon: float,
    steps: int,
    generator: Source,
    beta: float = 1.0,
    gradient_free: bool = False,
    hard: bool = False,
) -> Tensor:
    """SmoothAdv-PGD: images at most epsilon away that lower the smoothed probability of their labels.

    Steps of 2 epsilon / T; the clamp to [0,1] precedes the projection, as in the published code. No random start.
    If `gradient_free`, the gradient is estimated by `stein_gradient`, from answers alone if also `hard`.
    """
    make = partial(stein_gradient, hard=hard) if gradient_free else smoothed_gradient
    with frozen(model):
        return ascend(
            make(model, labels, noise, beta),
            images,
            steps=steps,
            step=2 * epsilon / steps,
            constrain=Within(images, epsilon, clamp="first"),
            generator=generator,
        )
