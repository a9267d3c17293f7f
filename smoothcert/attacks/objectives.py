"""What attacks and losses are made of: the network on noisy copies, and losses of its logits.

Pure functions of logits [m, B, classes] of m noises and B images, and of labels [B]. Equation numbers are those of
SmoothAdv (Salman et al., arXiv:1906.04584).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.devices.launching import may_launch


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients of parameters: an attack then changes no BatchNorm statistics, and is faster.

    On leaving, also by an error, each module's mode and each parameter's flag are as they were.
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
    if by_kernels(logits, logits.shape[-1]):
        from smoothcert.attacks.fused import smoothed_nll as fast_nll

        return fast_nll(logits, labels, beta)
    if len(logits) == 1:
        return F.cross_entropy(beta * logits[0], labels, reduction="none")
    return -label_probabilities(logits, labels, beta).mean(0).clamp(min=1e-20).log()


def expected_nll(logits: Tensor, labels: Tensor, beta: float = 1.0) -> Tensor:
    """(1/m) sum_i -log softmax(beta z_i)_y of logits [m, B, classes]: [B] (eq. 4)."""
    each = F.cross_entropy(
        beta * logits.flatten(0, 1), labels.repeat(len(logits)), reduction="none"
    )
    return each.view(len(logits), -1).mean(0)


def label_probabilities(logits: Tensor, labels: Tensor, beta: float = 1.0) -> Tensor:
    """softmax(beta z)_y of logits [m, B, classes]: [m, B]."""
    index = labels.expand(len(logits), -1)[..., None]
    return (beta * logits).softmax(-1).gather(-1, index)[..., 0]


def label_votes(logits: Tensor, labels: Tensor) -> Tensor:
    """1 where the largest logit is the label's, else 0, of logits [m, B, classes]: [m, B]."""
    return (logits.argmax(-1) == labels).to(logits.dtype)


def divergence(logits: Tensor, target: Tensor) -> Tensor:
    """KL(target || softmax(z)) of logits [m, B, classes]: [m, B]. Classes with target 0 add nothing."""
    if by_kernels(logits, logits.shape[-1]) and not target.requires_grad:
        from smoothcert.attacks.fused import divergence as fast_divergence

        return fast_divergence(logits, target)
    each: Tensor = torch.special.xlogy(target, target) - target * logits.log_softmax(-1)
    return each.sum(-1)


def majority(logits: Tensor) -> Tensor:
    """The class that most of the m noisy copies vote for, the lowest of several: [m, B, classes] -> [B]."""
    classes = torch.arange(logits.shape[-1], device=logits.device)
    return (logits.argmax(-1)[..., None] == classes).sum(0).argmax(-1)


def by_kernels(tensor: Tensor, size: int) -> bool:
    """Whether to use our own kernels: PyTorch's are many and small, and take longer to launch than to run.

    `size` is how many values one program of a kernel would hold.
    """
    return tensor.dtype == torch.float32 and size <= 2**14 and may_launch(tensor.device)
