"""The host's side of norm_kernels.py: batch normalisation, shortcut and ReLU of a channels-last network in training."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from smoothcert.fast import norm_kernels as kernels

_BLOCK = 2048
_SHARES = 512  # programs that share a sum over rows
_VALUES = 4096  # of a tile of such a program


def norm_relu(x: Tensor, norm: nn.BatchNorm2d, shortcut: Tensor | None = None, relu: bool = True) -> Tensor:
    """relu(norm(x) [+ shortcut]) in training: by the batch's own statistics, which move the running ones."""
    out: Tensor = NormReLU.apply(x, norm.weight, norm.bias, shortcut, norm, relu)  # type: ignore[no-untyped-call]
    return out


class NormReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, shortcut: Tensor | None, norm: nn.BatchNorm2d, relu: bool
    ) -> Tensor:
        x = _last(x)
        other = x if shortcut is None else _last(shortcut)
        channels, rows = x.shape[1], x.numel() // x.shape[1]
        parts, tiles = _parts(x)
        kernels.moments[(len(parts),)](x, norm.running_mean, parts, rows, **tiles)
        mean, scale = torch.empty_like(gamma), torch.empty_like(gamma)
        kernels.statistics[(1,)](
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
        out, flat = torch.empty_like(x), _flat(x, shortcut, relu)
        kernels.norm_relu[_grid(x)](x, mean, scale, gamma, beta, other, out, x.numel(), **flat)
        ctx.save_for_backward(x, out, mean, scale, gamma)
        ctx.relu, ctx.add = relu, shortcut is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, out, mean, scale, gamma = ctx.saved_tensors
        gradient = _last(gradient)
        rows = x.numel() // x.shape[1]
        parts, tiles = _parts(x)
        kernels.norm_relu_sums[(len(parts),)](gradient, out, x, mean, scale, parts, rows, RELU=ctx.relu, **tiles)
        sums = parts.sum(0)
        to_x = torch.empty_like(x)
        to_shortcut = torch.empty_like(x) if ctx.add else None
        flat = _flat(x, to_shortcut, ctx.relu)
        kernels.norm_relu_back[_grid(x)](
            gradient,
            out,
            x,
            mean,
            scale,
            gamma,
            sums,
            to_x,
            to_x if to_shortcut is None else to_shortcut,
            rows,
            x.numel(),
            **flat,
        )
        return to_x, sums[1], sums[0], to_shortcut, None, None


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _parts(x: Tensor) -> tuple[Tensor, dict[str, int]]:
    """Room for the shares of two sums over rows, and how the rows are dealt out."""
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    tile = max(1, _VALUES // channels)
    each = triton.cdiv(triton.cdiv(rows, _SHARES), tile) * tile
    shape = (triton.cdiv(rows, each), 2, channels)
    return x.new_empty(shape, dtype=torch.float32), {"each": each, "CHANNELS": channels, "TILE": tile}


def _grid(x: Tensor) -> tuple[int]:
    return (triton.cdiv(x.numel(), _BLOCK),)


def _flat(x: Tensor, shortcut: Tensor | None, relu: bool) -> dict[str, int | bool]:
    return {"CHANNELS": x.shape[1], "ADD": shortcut is not None, "RELU": relu, "BLOCK": _BLOCK}
