"""The host's side of norm_kernels.py: batch normalisation, shortcut and ReLU of a channels-last network in training."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from smoothcert.kernels.cifar_resnet import norm_kernels as kernels

_VALUES = 2048  # of a program that goes through them once
_SHARES = 264  # programs that share a sum over rows
_FORWARD, _BACKWARD = 8192, 4096  # values of a tile of such a program


class Normed(NamedTuple):
    """relu(norm(x) [+ shortcut]) and what its gradients need."""

    out: Tensor
    x: Tensor
    mean: Tensor
    scale: Tensor  # 1 / standard deviation
    gamma: Tensor


class Gradients(NamedTuple):
    x: Tensor
    gamma: Tensor
    beta: Tensor
    shortcut: Tensor | None


def normed(x: Tensor, norm: nn.BatchNorm2d, shortcut: Tensor | None = None, relu: bool = True) -> Normed:
    """By the batch's own statistics, which move the running ones."""
    x = channels_last(x)
    other = x if shortcut is None else channels_last(shortcut)
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    if rows == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.size()}")  # as torch
    parts, tiles = _parts(x, _FORWARD)
    kernels.moments[(len(parts),)](x, parts, rows, **tiles)
    mean, scale = torch.empty_like(norm.weight), torch.empty_like(norm.weight)
    kernels.statistics[(1,)](
        x,
        parts,
        norm.running_mean,
        norm.running_var,
        mean,
        scale,
        rows,
        norm.eps,
        norm.momentum,
        SHARES=len(parts),
        ROOM=triton.next_power_of_2(len(parts)),
        CHANNELS=channels,
    )
    out, add, (grid, tiles) = torch.empty_like(x), shortcut is not None, _once(x)
    kernels.norm_relu[grid](x, mean, scale, norm.weight, norm.bias, other, out, rows, ADD=add, RELU=relu, **tiles)
    return Normed(out, x, mean, scale, norm.weight)


def gradients(made: Normed, gradient: Tensor, relu: bool, add: bool) -> Gradients:
    """Of all that went in, from the gradient of `made.out`."""
    out, x, mean, scale, gamma = made
    gradient = channels_last(gradient)
    rows = x.numel() // x.shape[1]
    parts, tiles = _parts(x, _BACKWARD)
    kernels.norm_relu_sums[(len(parts),)](gradient, out, x, mean, scale, parts, rows, RELU=relu, **tiles)
    sums = added_up(parts)
    to_x = torch.empty_like(x)
    to_shortcut = torch.empty_like(x) if add else None
    other = to_x if to_shortcut is None else to_shortcut
    grid, tiles = _once(x)
    kernels.norm_relu_back[grid](
        gradient, out, x, mean, scale, gamma, sums, to_x, other, rows, ADD=add, RELU=relu, **tiles
    )
    return Gradients(to_x, sums[1], sums[0], to_shortcut)


def norm_relu(x: Tensor, norm: nn.BatchNorm2d, shortcut: Tensor | None = None, relu: bool = True) -> Tensor:
    """relu(norm(x) [+ shortcut]) as autograd sees it."""
    out: Tensor = NormReLU.apply(x, norm.weight, norm.bias, shortcut, norm, relu)  # type: ignore[no-untyped-call]
    return out


class NormReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, shortcut: Tensor | None, norm: nn.BatchNorm2d, relu: bool
    ) -> Tensor:
        made = normed(x, norm, shortcut, relu)
        ctx.save_for_backward(*made)
        ctx.relu, ctx.add = relu, shortcut is not None
        return made.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *gradients(Normed(*ctx.saved_tensors), gradient, ctx.relu, ctx.add), None, None


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def added_up(parts: Tensor) -> Tensor:
    """The sum of what lies along the first axis."""
    out, columns = torch.empty_like(parts[0]), parts[0].numel()
    grid = (triton.cdiv(columns, 32),)
    kernels.add_up[grid](parts, out, len(parts), columns, ROWS=256, COLUMNS=32, num_warps=8)
    return out


def _parts(x: Tensor, values: int) -> tuple[Tensor, dict[str, int]]:
    """Room for the shares of two sums over rows, and how the rows are dealt out."""
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    tile = max(1, values // channels)
    each = triton.cdiv(triton.cdiv(rows, _SHARES), tile) * tile
    shape = (triton.cdiv(rows, each), 2, channels)
    return x.new_empty(shape, dtype=torch.float32), {"each": each, "CHANNELS": channels, "TILE": tile}


def _once(x: Tensor) -> tuple[tuple[int], dict[str, int]]:
    """A grid of programs, each of which has some of the rows."""
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    tile = max(1, _VALUES // channels)
    return (triton.cdiv(rows, tile),), {"CHANNELS": channels, "TILE": tile}
