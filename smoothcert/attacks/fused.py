"""The host's side of fused_kernels.py: functions of objectives.py by the same names, and a step of `ascend`."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from smoothcert.attacks import fused_kernels as kernels
from smoothcert.attacks.constraints import GaussianLike, Within
from smoothcert.devices.launching import launch_on


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
        labels = labels.expand(samples).contiguous()
        with launch_on(logits.device):
            kernels.smoothed_nll[grid](
                logits,
                labels,
                loss,
                gradient,
                samples,
                float(beta),
                NOISES=noises,
                CLASSES=classes,
                **sizes,
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
        noises, samples, classes = logits.shape
        logits, target = logits.contiguous(), target.expand(samples, classes).contiguous()
        loss, gradient = logits.new_empty(noises, samples), torch.empty_like(logits)
        sizes = _sizes(classes)
        grid = (triton.cdiv(noises * samples, sizes["ROWS"]),)
        rows = noises * samples
        with launch_on(logits.device):
            kernels.divergence[grid](
                logits, target, loss, gradient, rows, samples, CLASSES=classes, **sizes
            )
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
    constrain: object,
    *,
    step: float,
    offset: float = 0.0,
    random: Tensor | None = None,
) -> Tensor:
    """A step of `ascend`, direction and constraint (Within or GaussianLike) included."""
    assert isinstance(constrain, Within | GaussianLike)
    if isinstance(constrain, Within):
        centre, clamp = constrain.centre, str(constrain.clamp)
    else:
        centre, clamp = constrain.noise, "never"
    point, gradient, centre = (x.expand_as(point).contiguous() for x in (point, gradient, centre))
    out, values = torch.empty_like(point), point.shape[1:].numel()
    block = triton.next_power_of_2(values)
    with launch_on(point.device):
        kernels.step_up[(len(point),)](
            point,
            gradient,
            gradient if random is None else random,
            centre,
            out,
            float(step),
            float(offset),
            float(constrain.radius or 0.0),
            VALUES=values,
            RANDOM=random is not None,
            BALL=constrain.radius is not None,
            CLAMP=clamp,
            MOMENTS=isinstance(constrain, GaussianLike),
            BLOCK=block,
            num_warps=4 if block <= 1024 else 8,
        )
    return out


def _sizes(classes: int) -> dict[str, int]:
    columns = max(2, triton.next_power_of_2(classes))
    return {"COLUMNS": columns, "ROWS": max(1, min(16, 2048 // columns))}
