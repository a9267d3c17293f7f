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
# tiles of programs that add up shares of few numbers, and of many
_NARROW = {"ROWS": 512, "COLUMNS": 8}
_WIDE = {"ROWS": 64, "COLUMNS": 32}


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


def normed(
    x: Tensor,
    norm: nn.BatchNorm2d,
    shortcut: Tensor | None = None,
    relu: bool = True,
    parts: Tensor | None = None,
) -> Normed:
    """By the batch's own statistics, which move the running ones; `parts` are those of `moments`, if known."""
    x = channels_last(x)
    other = x if shortcut is None else channels_last(shortcut)
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    if rows == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {x.size()}"
        )  # as torch
    if parts is None:
        parts, tiles = _parts(x, 3, _FORWARD)
        kernels.moments[(len(parts),)](x, parts, rows, **tiles)
    mean, scale = torch.empty_like(norm.weight), torch.empty_like(norm.weight)
    kernels.statistics[(channels // _NARROW["COLUMNS"],)](
        parts,
        norm.running_mean,
        norm.running_var,
        mean,
        scale,
        len(parts),
        rows,
        norm.eps,
        norm.momentum,
        CHANNELS=channels,
        **_NARROW,
        num_warps=8,
    )
    out, add, (grid, tiles) = torch.empty_like(x), shortcut is not None, _once(x)
    kernels.norm_relu[grid](
        x, mean, scale, norm.weight, norm.bias, other, out, rows, ADD=add, RELU=relu, **tiles
    )
    return Normed(out, x, mean, scale, norm.weight)


def gradients(made: Normed, gradient: Tensor, relu: bool, add: bool) -> Gradients:
    """Of all that went in, from the gradient of `made.out`."""
    gradient = channels_last(gradient)
    sums = gradient_sums(made, gradient, relu)
    to_shortcut = torch.empty_like(made.x) if add else None
    return Gradients(
        gradient_of_x(made, gradient, sums, relu, to_shortcut), sums[1], sums[0], to_shortcut
    )


def gradient_sums(made: Normed, gradient: Tensor, relu: bool, out: Tensor | None = None) -> Tensor:
    """[2, channels]: the gradients of beta and gamma."""
    parts, tiles = _parts(made.x, 2, _BACKWARD)
    rows = made.x.numel() // made.x.shape[1]
    kernels.norm_relu_sums[(len(parts),)](
        gradient, made.out, made.x, made.mean, made.scale, parts, rows, RELU=relu, **tiles
    )
    return added_up(parts[None], out if out is None else out[None])[0]


def gradient_of_x(
    made: Normed,
    gradient: Tensor,
    sums: Tensor,
    relu: bool = False,
    to_shortcut: Tensor | None = None,
) -> Tensor:
    """From the gradient of `made.out`, or, unless `relu`, of what is before the ReLU; writes that of the shortcut."""
    out, x, mean, scale, gamma = made
    to_x, rows, add, (grid, tiles) = (
        torch.empty_like(x),
        x.numel() // x.shape[1],
        to_shortcut is not None,
        _once(x),
    )
    other = to_x if to_shortcut is None else to_shortcut
    kernels.norm_relu_back[grid](
        gradient, out, x, mean, scale, gamma, sums, to_x, other, rows, ADD=add, RELU=relu, **tiles
    )
    return to_x


def norm_relu(
    x: Tensor, norm: nn.BatchNorm2d, shortcut: Tensor | None = None, relu: bool = True
) -> Tensor:
    """relu(norm(x) [+ shortcut]) as autograd sees it."""
    out: Tensor = NormReLU.apply(x, norm.weight, norm.bias, shortcut, norm, relu)  # type: ignore[no-untyped-call]
    return out


class NormReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        shortcut: Tensor | None,
        norm: nn.BatchNorm2d,
        relu: bool,
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


def added_up(parts: Tensor, out: Tensor | None = None) -> Tensor:
    """[groups, ...], the sums of what lies along the second axis."""
    groups, shares, *shape = parts.shape
    out = parts.new_empty((groups, *shape)) if out is None else out
    columns = out[0].numel()
    tile = _NARROW if columns <= 128 else _WIDE  # two sums of 64 channels, or gradients of weights
    grid = (triton.cdiv(columns, tile["COLUMNS"]), groups)
    kernels.add_up[grid](parts, out, shares, columns, **tile, num_warps=8)
    return out


def _parts(x: Tensor, sums: int, values: int) -> tuple[Tensor, dict[str, int]]:
    """Room for the shares of some sums over rows, and how the rows are dealt out."""
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    tile = max(1, values // channels)
    each = triton.cdiv(triton.cdiv(rows, _SHARES), tile) * tile
    shape = (triton.cdiv(rows, each), sums, channels)
    return x.new_empty(shape, dtype=torch.float32), {
        "each": each,
        "CHANNELS": channels,
        "TILE": tile,
    }


def _once(x: Tensor) -> tuple[tuple[int], dict[str, int]]:
    """A grid of programs, each of which has some of the rows."""
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    tile = max(1, _VALUES // channels)
    return (triton.cdiv(rows, tile),), {"CHANNELS": channels, "TILE": tile}
