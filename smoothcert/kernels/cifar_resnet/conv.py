"""The host's side of conv_kernels.py."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from smoothcert.kernels.cifar_resnet import conv_kernels as kernels
from smoothcert.kernels.cifar_resnet.norm import added_up

CHANNELS = (16, 32)
"""What the kernels are made for. At 64, cuDNN is as fast."""

# as tuned by hand on an H200
_TILE = {"PIXELS": 32, "WARPS": 4}
_REGISTERS = 128  # of a thread at most: with more, too few programs fit on a multiprocessor
_WEIGHTS_TILE = {"PIXELS": 32, "WARPS": 4}
_SHARES = {16: 132, 32: 44}  # by channels, programs that share a sum over pixels


def conv3x3(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    shortcut: Tensor | None = None,
    relu: bool = False,
    active: Tensor | None = None,
) -> Tensor:
    """relu(conv(x) + bias + shortcut), zero where `active` is not positive; as many channels out as in.

    All are channels-last and of one type, float32 or bfloat16, but for the bias, which is float32; `weight` is
    [channels, channels, 3, 3].
    """
    out, pixels = torch.empty_like(x), x.numel() // x.shape[1]
    kernels.conv3x3[(triton.cdiv(pixels, _TILE["PIXELS"] * _TILE["WARPS"]),)](
        x,
        weight,
        x if bias is None else bias,
        x if shortcut is None else shortcut,
        x if active is None else active,
        out,
        pixels,
        **_sizes(x),
        BIAS=bias is not None,
        ADD=shortcut is not None,
        RELU=relu,
        MASK=active is not None,
        **_TILE,
        num_warps=_TILE["WARPS"],
        maxnreg=_REGISTERS,
    )
    return out


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Of the weights of such a convolution, in float32, channels-last as they are."""
    channels, pixels, tile = x.shape[1], x.numel() // x.shape[1], _WEIGHTS_TILE
    step = tile["PIXELS"] * tile["WARPS"]
    each = triton.cdiv(triton.cdiv(pixels, _SHARES[channels]), step) * step
    parts = x.new_empty((triton.cdiv(pixels, each), channels, 3, 3, channels), dtype=torch.float32)
    kernels.conv3x3_weights[(len(parts), 3)](
        gradient, x, parts, pixels, each, **_sizes(x), **tile, num_warps=tile["WARPS"]
    )
    return added_up(parts).permute(0, 3, 1, 2)


def _sizes(x: Tensor) -> dict[str, int | float]:
    cut = x.is_cuda and x.dtype == torch.float32  # Triton's interpreter multiplies in float32
    scale = 1 + 0.72 / 1024 if cut else 1.0
    return {"HEIGHT": x.shape[2], "WIDTH": x.shape[3], "CHANNELS": x.shape[1], "SCALE": scale}
