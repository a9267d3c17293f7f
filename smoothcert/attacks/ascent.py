"""Attacks on smoothed classifiers: gradient ascent in its published variants, DDN, the gradient-free estimate.

Pure functions on batches: images [B, C, H, W] in [0,1], labels [B], noise [m, B, C, H, W] that the caller drew, and a
generator where an attack draws. No step waits for the device or branches on its values. The same noise serves every
step of an attack, and in training the loss after it:

    noise = sigma * torch.randn(m, *images.shape, generator=generator)
    found = pgd(model, images, labels, noise, epsilon=0.5, steps=20, generator=generator)

Equation numbers are those of SmoothAdv (Salman et al., arXiv:1906.04584) where no other paper is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.attacks.constraints import GaussianLike, Within, norms, project
from smoothcert.devices.launching import runs_triton

Objective = Callable[[Tensor], Tensor]  # points [B, ...] -> a loss a point [B]
Gradient = Callable[[Tensor], Tensor]  # points [B, ...] -> directions of ascent [B, ...], of any length
Constraint = Callable[[Tensor], Tensor]  # points [B, ...] -> the allowed points that stand for them [B, ...]


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients of parameters, so that an attack neither moves BatchNorm statistics nor pays for them.

    Each module's mode and each parameter's flag are as before when it ends, however it ends.
    """
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.eval().requires_grad_(False)
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, required in flags:
            parameter.requires_grad_(required)


def noisy_logits(model: nn.Module, images: Tensor, noise: Tensor) -> Tensor:
    """Logits of each image under each of its noises, by one forward: [m, B, classes]."""
    logits: Tensor = model((images + noise).flatten(0, 1))
    return logits.view(len(noise), len(images), -1)


def smoothed_nll(logits: Tensor, labels: Tensor, beta: float = 1.0) -> Tensor:
    """J = -log( (1/m) sum_i softmax(beta z_i)_y ) of logits [m, B, classes]: [B] (eq. 6; beta: appendix B, eq. 15).

    The mean is clamped at 1e-20. A single noise has the equal cross-entropy of its logits, which needs no clamp.
    """
    if _by_kernels(logits, logits.shape[-1]):
        from smoothcert.attacks.fused import smoothed_nll as fast_nll

        return fast_nll(logits, labels, beta)
    if len(logits) == 1:
        return F.cross_entropy(beta * logits[0], labels, reduction="none")
    return -label_probabilities(logits, labels, beta).mean(0).clamp(min=1e-20).log()


def label_probabilities(logits: Tensor, labels: Tensor, beta: float = 1.0) -> Tensor:
    """softmax(beta z)_y of logits [m, B, classes]: [m, B]."""
    index = labels.expand(len(logits), -1)[..., None]
    return (beta * logits).softmax(-1).gather(-1, index)[..., 0]


def divergence(logits: Tensor, target: Tensor) -> Tensor:
    """KL(target || softmax(z)) of logits [m, B, classes]: [m, B]. Classes with target 0 add nothing."""
    if _by_kernels(logits, logits.shape[-1]) and not target.requires_grad:
        from smoothcert.attacks.fused import divergence as fast_divergence

        return fast_divergence(logits, target)
    each: Tensor = torch.special.xlogy(target, target) - target * logits.log_softmax(-1)
    return each.sum(-1)


def input_gradient(objective: Objective) -> Gradient:
    """The gradient of an objective; that of the sum over points is each point's own gradient."""

    def gradient(point: Tensor) -> Tensor:
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            losses = objective(point)
            return torch.autograd.grad(losses, point, torch.ones_like(losses))[0]

    return gradient


def smoothed_gradient(model: nn.Module, labels: Tensor, noise: Tensor, beta: float = 1.0) -> Gradient:
    """The plug-in estimate of the gradient of J at a point (eq. 6)."""
    return input_gradient(lambda point: smoothed_nll(noisy_logits(model, point, noise), labels, beta))


def stein_gradient(model: nn.Module, labels: Tensor, noise: Tensor, beta: float = 1.0) -> Gradient:
    """-(1/m) sum_i softmax(z(x + delta_i))_y delta_i, by forwards alone: Stein's lemma (eq. 7) up to 1/sigma^2."""

    @torch.no_grad()
    def gradient(point: Tensor) -> Tensor:
        p = label_probabilities(noisy_logits(model, point, noise), labels, beta)  # [m, B]
        return -(p.view(*p.shape, *[1] * (noise.ndim - 2)) * noise).mean(0)

    return gradient


def unit(gradient: Tensor, generator: torch.Generator | None = None, offset: float = 1e-8) -> Tensor:
    """g / (||g|| + offset) for each sample; with a generator, g / ||g||, and a vector of N(0, I) where g is exactly 0.

    The first is the rule of the attacks in Consistency, SmoothMix and CAT-RS, the second that of SmoothAdv, whose
    random vector is not normalised.
    """
    length = norms(gradient)
    if generator is None:
        return gradient / (length + offset)
    return torch.where(length == 0, _gaussian(gradient, generator), gradient / length)


def _gaussian(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def ascend(
    gradient: Gradient,
    start: Tensor,
    *,
    steps: int,
    step: float,
    constrain: Constraint,
    generator: torch.Generator | None = None,
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
    generator: torch.Generator | None,
    offset: float,
) -> Tensor:
    # exactly these: a subclass may have another rule
    if type(constrain) not in (Within, GaussianLike) or not _by_kernels(point, point.shape[1:].numel()):
        return constrain(point + step * unit(gradient, generator, offset))
    from smoothcert.attacks.fused import step_up

    random = None if generator is None else _gaussian(gradient, generator)
    return step_up(point, gradient, constrain, step=step, offset=offset, random=random)


def _by_kernels(tensor: Tensor, size: int) -> bool:
    """Whether kernels of our own take less time: small ones cost a GPU more to launch than to run."""
    return tensor.dtype == torch.float32 and size <= 2**14 and runs_triton(tensor.device)


def pgd(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    noise: Tensor,
    *,
    epsilon: float,
    steps: int,
    generator: torch.Generator,
    beta: float = 1.0,
    gradient_free: bool = False,
) -> Tensor:
    """SmoothAdv-PGD: images at most epsilon away that lower the smoothed probability of their labels.

    Steps of 2 epsilon / T; the clamp to [0,1] precedes the projection, as in the published code. No random start.
    """
    make = stein_gradient if gradient_free else smoothed_gradient
    with frozen(model):
        return ascend(
            make(model, labels, noise, beta),
            images,
            steps=steps,
            step=2 * epsilon / steps,
            constrain=Within(images, epsilon, clamp="first"),
            generator=generator,
        )


def ddn(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    noise: Tensor,
    *,
    epsilon: float,
    steps: int,
    generator: torch.Generator,
    gamma: float = 0.05,
    beta: float = 1.0,
) -> Tensor:
    """SmoothAdv-DDN: the nearest image found whose noisy copies do not vote for its label, at most epsilon away.

    Decoupled direction and norm (Rony et al., arXiv:1811.09600): each step turns the perturbation by a cosine-annealed
    rate, then shrinks (adversarial) or grows (not) its norm by gamma, on the 256 grey levels. As in SmoothAdv's
    published code the norm starts at epsilon, not at 1, and the last iterate is not tested: an image whose label no
    earlier iterate changed comes back as it was.
    """
    furthest = norms(torch.maximum(images, 1 - images))  # within [0,1] no perturbation is longer
    d = best = torch.zeros_like(images)
    rho, best_norm = torch.full_like(furthest, epsilon), furthest
    with frozen(model):
        for t in range(steps):
            rate = 0.01 + 0.99 * (1 + math.cos(math.pi * (t + 1) / steps)) / 2
            with torch.enable_grad():
                point = (images + d).detach().requires_grad_()
                logits = noisy_logits(model, point, noise)
                gradient = torch.autograd.grad(smoothed_nll(logits, labels, beta).sum(), point)[0]
            adversarial = (majority(logits) != labels).view_as(furthest)
            closer = adversarial & (norms(d) < best_norm)
            best, best_norm = torch.where(closer, d, best), torch.where(closer, norms(d), best_norm)
            d = d + rate * unit(gradient, generator)
            rho = torch.minimum(torch.where(adversarial, rho * (1 - gamma), rho * (1 + gamma)), furthest)
            d = d * (rho / norms(d).clamp(min=1e-30))
            d = eight_bit(images + d).clamp(0.0, 1.0) - images
    return eight_bit(images + project(best, torch.zeros_like(best), epsilon))


def ddn_test_gamma(epsilon: float, steps: int) -> float:
    """SmoothAdv's gamma for DDN as a test: T shrinkings take the norm from epsilon to 1.5 / 255."""
    return float(1 - (3 / 510 / epsilon) ** (1 / steps))


def majority(logits: Tensor) -> Tensor:
    """The class that most of the m noisy copies vote for, the lowest of several: [m, B, classes] -> [B]."""
    classes = torch.arange(logits.shape[-1], device=logits.device)
    return (logits.argmax(-1)[..., None] == classes).sum(0).argmax(-1)


def eight_bit(images: Tensor) -> Tensor:
    """The nearest images with 256 grey levels."""
    return (images * 255).round() / 255
