"""The host's side of attack_kernels.py: the functions of attacks.py of the same names, on CUDA."""

from __future__ import annotations

from typing import Any, Literal

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from smoothcert.fast import attack_kernels as kernels


def smoothed_nll(logits: Tensor, labels: Tensor, beta: float) -> Tensor:
    loss: Tensor = SmoothedNll.apply(logits, labels, beta)  # type: ignore[no-untyped-call]
    return loss


def divergence(logits: Tensor, target: Tensor) -> Tensor:
    loss: Tensor = Divergence.apply(logits, target)  # type: ignore[no-untyped-call]
    return loss


class SmoothedNll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, beta: float) -> Tensor:
        logits = logits.contiguous()
        noises, samples, classes = logits.shape
        loss, gradient = logits.new_empty(samples), torch.empty_like(logits)
        sizes = _sizes(classes)
        grid = (triton.cdiv(samples, sizes["ROWS"]),)
        kernels.smoothed_nll[grid](
            logits, labels.contiguous(), loss, gradient, samples, float(beta), NOISES=noises, CLASSES=classes, **sizes
        )
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad[:, None], None, None


class Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        logits, target = logits.contiguous(), target.contiguous()
        noises, samples, classes = logits.shape
        loss, gradient = logits.new_empty(noises, samples), torch.empty_like(logits)
        sizes = _sizes(classes)
        grid = (triton.cdiv(noises * samples, sizes["ROWS"]),)
        kernels.divergence[grid](logits, target, loss, gradient, noises * samples, samples, CLASSES=classes, **sizes)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad[..., None], None


def step_up(
    point: Tensor,
    gradient: Tensor,
    centre: Tensor,
    *,
    step: float,
    radius: float | None,
    clamp: Literal["first", "last", "never"] = "never",
    moments: bool = False,
    offset: float = 0.0,
    random: Tensor | None = None,
) -> Tensor:
    """A step of `ascend`, direction and constraint included."""
    point, gradient, centre = (tensor.contiguous() for tensor in (point, gradient, centre))
    out, values = torch.empty_like(point), point[0].numel()
    block = triton.next_power_of_2(values)
    kernels.step_up[(len(point),)](
        point,
        gradient,
        gradient if random is None else random,
        centre,
        out,
        float(step),
        float(offset),
        0.0 if radius is None else float(radius),
        VALUES=values,
        RANDOM=random is not None,
        BALL=radius is not None,
        CLAMP=clamp,
        MOMENTS=moments,
        BLOCK=block,
        num_warps=4 if block <= 1024 else 8,
    )
    return out


def _sizes(classes: int) -> dict[str, int]:
    columns = max(2, triton.next_power_of_2(classes))
    return {"COLUMNS": columns, "ROWS": max(1, min(16, 2048 // columns))}
