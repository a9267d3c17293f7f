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
from typing import Literal

import torch
from torch import Tensor, nn

from smoothcert.attacks.constraints import GaussianLike, Within, norms
from smoothcert.attacks.objectives import (
    by_kernels,
    expected_nll,
    frozen,
    label_probabilities,
    label_votes,
    noisy_logits,
    smoothed_nll,
)
from smoothcert.errors import ModelError, unknown_name

Objective = Callable[[Tensor], Tensor]  # points [B, ...] -> a loss for each point [B]
Gradient = Callable[
    [Tensor], Tensor
]  # points [B, ...] -> directions of ascent [B, ...], of any length
GradientName = Literal["smoothed", "expected", "stein", "stein-hard"]  # which `pgd` climbs
Constraint = Callable[
    [Tensor], Tensor
]  # points [B, ...] -> the allowed points that stand for them [B, ...]
Source = (
    torch.Generator | Callable[[Tensor], Tensor]
)  # of N(0, I): a generator, or a tensor -> numbers of its shape

NO_OFFSET = 1e-30
"""Nothing beside the length of a gradient: steps are g / ||g||, and none where g is 0."""


def input_gradient(objective: Objective) -> Gradient:
    """The gradient of an objective at each point, by one backward pass of the sum over points."""

    def gradient(point: Tensor) -> Tensor:
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            losses = objective(point)
            if not losses.requires_grad:
                raise ModelError(
                    "the network's answers have no gradient (it rounds them, or leaves PyTorch): attack it "
                    "by its votes, with the attack stein-hard"
                )
            return torch.autograd.grad(losses, point, torch.ones_like(losses))[0]

    return gradient


def smoothed_gradient(
    model: nn.Module, labels: Tensor, noise: Tensor, beta: float = 1.0
) -> Gradient:
    """The plug-in estimate of the gradient of J at a point (eq. 6)."""
    return input_gradient(
        lambda point: smoothed_nll(noisy_logits(model, point, noise), labels, beta)
    )


def expected_gradient(
    model: nn.Module, labels: Tensor, noise: Tensor, beta: float = 1.0
) -> Gradient:
    """The gradient of eq. 4: towards images that the network gets wrong under most noises."""
    return input_gradient(
        lambda point: expected_nll(noisy_logits(model, point, noise), labels, beta)
    )


def stein_gradient(model: nn.Module, labels: Tensor, noise: Tensor, beta: float = 1.0) -> Gradient:
    """-(1/m) sum_i softmax(z(x + delta_i))_y delta_i, by forwards alone: Stein's lemma (eq. 7) up to 1/sigma^2."""
    return _by_stein(
        lambda point: label_probabilities(noisy_logits(model, point, noise), labels, beta), noise
    )


def hard_vote_gradient(
    model: nn.Module, labels: Tensor, noise: Tensor, as_printed: bool = False
) -> Gradient:
    """Stein's lemma for the smoothed hard classifier: nothing but its answers is asked of the network.

    -(1/m) sum_i (v_i - mean v) delta_i, where v_i is 1 if the answer to x + delta_i is the label, else 0. The mean
    changes the expectation by the factor 1 - 1/m alone and takes most of the variance away: votes that all agree would
    else lead along the mean of the noises, which says nothing of the network. `as_printed` (section
    3.1) does not take it.
    """

    def votes(point: Tensor) -> Tensor:
        found = label_votes(noisy_logits(model, point, noise), labels)
        return found if as_printed else found - found.mean(0)

    return _by_stein(votes, noise)


def _by_stein(weights: Callable[[Tensor], Tensor], noise: Tensor) -> Gradient:
    """Down the mean of the noises by the weights [m, B] that the noisy copies of a point have."""

    @torch.no_grad()
    def gradient(point: Tensor) -> Tensor:
        w = weights(point)
        return -(w.view(*w.shape, *[1] * (noise.ndim - 2)) * noise).mean(0)

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
    if type(constrain) not in (Within, GaussianLike) or not by_kernels(
        point, point.shape[1:].numel()
    ):
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
    gradient: GradientName = "smoothed",
    as_printed: bool = False,
) -> Tensor:
    """SmoothAdv-PGD: images at most epsilon away that lower the smoothed probability of their labels.

    Steps of 2 epsilon / T; the clamp to [0,1] precedes the projection, as in the published code. No random start.
    The gradient is one of the four above; `hard_vote_gradient` knows no `beta`. `as_printed` (S)
    has the ball alone, so that what is found may lie outside of [0,1], and no random step.
    """
    known: dict[GradientName, Gradient] = {
        "smoothed": smoothed_gradient(model, labels, noise, beta),
        "expected": expected_gradient(model, labels, noise, beta),
        "stein": stein_gradient(model, labels, noise, beta),
        "stein-hard": hard_vote_gradient(model, labels, noise, as_printed),
    }
    if gradient not in known:
        raise unknown_name("gradient", gradient, known)
    with frozen(model):
        return ascend(
            known[gradient],
            images,
            steps=steps,
            step=2 * epsilon / steps,
            constrain=Within(images, epsilon, "never" if as_printed else "first"),
            generator=None if as_printed else generator,
            offset=NO_OFFSET,
        )
