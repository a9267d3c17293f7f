"""The host's side of layer_kernels.py: a module for each, on CUDA, in half precision.

Constants that stay in float32 are plain attributes: buffers would follow the network to half precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

import torch
import triton
from torch import Tensor, nn

from smoothcert.kernels.generic.folding import affine
from smoothcert.kernels.layers import layer_kernels as kernels
from smoothcert.models.normalise import Normalise

_VALUES = 2048  # of a program that goes through them once
_WIDEST = 256  # channels of such a program
_WINDOWS, _STEP = 128, 32  # of a program of a convolution


class NormedSum(nn.Module, ABC):
    """norm(x), or norm(x + z); with `keep` the sum as well."""

    def __init__(self, keep: bool) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        x = self.in_rows(x)
        other = x if z is None else self.in_rows(z)
        out = torch.empty_like(x)
        total = torch.empty_like(x) if self.keep else out
        self.launch(x, other, total, out, ADD=z is not None, KEEP=self.keep)
        return (total, out) if self.keep else out

    @abstractmethod
    def in_rows(self, x: Tensor) -> Tensor:
        """`x` so that its memory is [rows, width]."""

    @abstractmethod
    def launch(self, x: Tensor, z: Tensor, total: Tensor, out: Tensor, **flags: bool) -> None: ...


class ChannelNorm(NormedSum):
    """BatchNorm2d by its running statistics, then perhaps ReLU."""

    def __init__(self, norm: nn.BatchNorm2d | Normalise, relu: bool, keep: bool) -> None:
        super().__init__(keep)
        self.relu = relu
        self.scale, self.shift = (value.float() for value in affine_of(norm))

    def in_rows(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=torch.channels_last)

    def launch(self, x: Tensor, z: Tensor, total: Tensor, out: Tensor, **flags: bool) -> None:
        if len(self.scale) != x.shape[1]:  # one value for all channels
            self.scale, self.shift = (
                value.repeat(x.shape[1]) for value in (self.scale, self.shift)
            )
        rows, tiles = x.numel() // x.shape[1], _tiles(x.shape[1])
        grid = (triton.cdiv(rows, tiles["ROWS"]), triton.cdiv(x.shape[1], tiles["COLUMNS"]))
        sizes = {"WIDTH": x.shape[1], "RELU": self.relu, **tiles, **flags}
        kernels.affine[grid](x, z, total, out, self.scale, self.shift, rows, **sizes)


class TokenNorm(NormedSum):
    """LayerNorm over the last dimension."""

    def __init__(self, norm: nn.LayerNorm, keep: bool) -> None:
        super().__init__(keep)
        self.width, self.eps = norm.normalized_shape[0], norm.eps
        self.scale = torch.ones(self.width) if norm.weight is None else norm.weight.detach().float()
        self.shift = (
            torch.zeros_like(self.scale) if norm.bias is None else norm.bias.detach().float()
        )

    def in_rows(self, x: Tensor) -> Tensor:
        return x.contiguous()

    def launch(self, x: Tensor, z: Tensor, total: Tensor, out: Tensor, **flags: bool) -> None:
        rows, columns = x.numel() // self.width, triton.next_power_of_2(self.width)
        each = max(1, _VALUES // columns)
        sizes = {"WIDTH": self.width, "COLUMNS": columns, "ROWS": each, **flags}
        # once: a norm may have no weights
        self.scale, self.shift = self.scale.to(x.device), self.shift.to(x.device)
        kernels.layer_norm[(triton.cdiv(rows, each),)](
            x, z, total, out, self.scale, self.shift, rows, self.eps, **sizes
        )


class MaxPool(nn.Module):
    """Max-pooling by square windows: PyTorch's also notes where each maximum was, which takes six times as long."""

    def __init__(self, size: int, stride: int, padding: int) -> None:
        super().__init__()
        self.window = {"SIZE": size, "STRIDE": stride, "PADDING": padding}

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        sizes = _sizes(x, **self.window)
        out, pixels = _empty(x, x.shape[1], sizes)
        tiles = _tiles(x.shape[1])
        grid = (triton.cdiv(pixels, tiles["ROWS"]), triton.cdiv(x.shape[1], tiles["COLUMNS"]))
        kernels.max_pool[grid](x, out, pixels, **sizes, **tiles)
        return out


class LinearGelu(nn.Module):
    """GELU of a linear layer in one call of cuBLAS, by its formula with tanh.

    In half precision that differs from the one with erf by less than rounding does: by 0.00018 as a root mean square,
    where rounding is 0.0002 (measured on normal values).
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.linear.weight, self.linear.bias
        y: Tensor = torch._addmm_activation(
            bias, x.reshape(-1, x.shape[-1]), weight.t(), use_gelu=True
        )
        return y.view(*x.shape[:-1], -1)


class NarrowConv(nn.Module):
    """Perhaps a normalisation of images, a convolution of few channels whose padding is zeros, and perhaps ReLU."""

    weight: Tensor

    def __init__(self, conv: nn.Conv2d, norm: Normalise | None, relu: bool) -> None:
        super().__init__()
        out, channels, size, _ = conv.weight.shape
        self.out, self.relu = out, relu
        self.window = {
            "SIZE": size,
            "STRIDE": conv.stride[0],
            "PADDING": cast(int, conv.padding[0]),
        }
        length = size * size * channels
        rows = torch.zeros(triton.cdiv(length, _STEP) * _STEP, max(16, triton.next_power_of_2(out)))
        weight = rows.to(conv.weight)
        weight[:length, :out] = conv.weight.detach().permute(2, 3, 1, 0).reshape(length, out)
        self.register_buffer("weight", weight)
        bias = torch.zeros(out) if conv.bias is None else conv.bias.detach()
        self.bias = bias.float().to(weight.device)
        self.scale, self.shift = (
            value.float().to(weight.device) for value in _first_affine(norm, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        sizes = _sizes(x, **self.window)
        out, pixels = _empty(x, self.out, sizes)
        length, columns = self.weight.shape
        strides = zip(("IMAGE", "CHANNEL", "LINE", "PIXEL"), x.stride(), strict=True)
        kernels.narrow_conv[(triton.cdiv(pixels, _WINDOWS),)](
            x,
            self.weight,
            self.bias,
            self.scale,
            self.shift,
            out,
            pixels,
            OUT=self.out,
            RELU=self.relu,
            LENGTH=length,
            COLUMNS=columns,
            ROWS=_WINDOWS,
            STEP=_STEP,
            **sizes,
            **{f"{name}_STRIDE": stride for name, stride in strides},
        )
        return out


class Patches(nn.Module):
    """A convolution whose windows do not overlap, on normalised images, as one product of matrices.

    The normalisation is part of the weights: without padding, that is the same function.
    """

    def __init__(self, conv: nn.Conv2d, norm: Normalise | None) -> None:
        super().__init__()
        self.size = conv.kernel_size[0]
        weight = conv.weight.detach().double()
        scale, shift = _first_affine(norm, weight.shape[1])
        bias = 0.0 if conv.bias is None else conv.bias.detach().double()
        self.linear = nn.Linear(
            weight[0].numel(), len(weight), device=weight.device, dtype=conv.weight.dtype
        )
        with torch.no_grad():
            self.linear.weight.copy_(
                (weight * scale.view(-1, 1, 1).to(weight)).permute(0, 2, 3, 1).flatten(1)
            )
            self.linear.bias.copy_(bias + (weight * shift.view(-1, 1, 1).to(weight)).sum((1, 2, 3)))

    def forward(self, x: Tensor) -> Tensor:
        size, (high, wide) = self.size, (side // self.size for side in x.shape[-2:])
        x = x.permute(0, 2, 3, 1)[:, : high * size, : wide * size]
        # [b, high, wide, a window]
        windows = x.reshape(len(x), high, size, wide, -1).transpose(2, 3).flatten(3)
        y: Tensor = self.linear(windows)
        return y.permute(0, 3, 1, 2)


def affine_of(norm: nn.BatchNorm2d | Normalise) -> tuple[Tensor, Tensor]:
    """Scale and shift of each channel, in float64."""
    if not isinstance(norm, Normalise):
        return affine(norm)
    mean = norm.mean.flatten().double()
    scale = torch.ones_like(mean) if norm.std is None else 1 / norm.std.flatten().double()
    return scale, -mean * scale


def _first_affine(norm: Normalise | None, channels: int) -> tuple[Tensor, Tensor]:
    if norm is None:
        return torch.ones(channels), torch.zeros(channels)
    scale, shift = affine_of(norm)
    return scale.repeat(channels // len(scale)), shift.repeat(
        channels // len(shift)
    )  # one value may be for all


def _tiles(channels: int) -> dict[str, int]:
    columns = min(_WIDEST, triton.next_power_of_2(channels))
    return {"COLUMNS": columns, "ROWS": _VALUES // columns}


def _sizes(x: Tensor, SIZE: int, STRIDE: int, PADDING: int) -> dict[str, Any]:
    _, channels, height, width = x.shape
    high, wide = ((side + 2 * PADDING - SIZE) // STRIDE + 1 for side in (height, width))
    shape = {
        "CHANNELS": channels,
        "HEIGHT": height,
        "WIDTH": width,
        "OUT_HEIGHT": high,
        "OUT_WIDTH": wide,
    }
    return {**shape, "SIZE": SIZE, "STRIDE": STRIDE, "PADDING": PADDING}


def _empty(x: Tensor, channels: int, sizes: dict[str, Any]) -> tuple[Tensor, int]:
    """Room for the answer in channels-last memory, and how many pixels it has."""
    shape = (len(x), channels, sizes["OUT_HEIGHT"], sizes["OUT_WIDTH"])
    out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    return out, shape[0] * shape[2] * shape[3]
