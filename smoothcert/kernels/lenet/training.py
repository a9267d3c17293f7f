"""LeNet for training: the host's side of training_kernels.py, as a module that shares a model's parameters."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
import triton
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from smoothcert.errors import ModelError
from smoothcert.kernels.lenet import training_kernels as kernels
from smoothcert.kernels.lenet.entry import why_not_training
from smoothcert.models.lenet import LeNet

Products = Literal["tf32", "ieee"]
"""Of float32: factors cut to 10 bits, or in full."""

# Rows a program takes, and its warps (and stages of its loop, and how much of a sum a stage takes). Fixed, not tuned on
# the spot: every process must compute the same bits.
_CONV1 = {"M": 64, "num_warps": 8, "num_stages": 3}
_CONV2 = {"M": 64, "K": 64, "num_warps": 4, "num_stages": 3}
_CONV2_BACK = {"M": 64, "num_warps": 8, "num_stages": 3}
_CONV1_BACK = {"M": 64, "num_warps": 8, "num_stages": 3}
_CONV2_WEIGHTS = {"R": 32, "num_warps": 4, "num_stages": 2}
_CONV1_WEIGHTS = {"R": 64, "num_warps": 8, "num_stages": 1}
# Programs that share a sum over samples: more are faster, up to the size of the device, and leave more to add up.
_SHARES2 = 16
_SHARES1 = 48

_FILTERS1, _FILTERS2 = 500, 25000
_SIZES = [
    4 * 80 * 64,
    4 * 64 * 80,
    5 * 128 * 128,
    5 * 2 * 128 * 64,
]  # of the matrices that _index() describes


class FastLeNetTraining(nn.Module):
    """``Sequential(normalisation, LeNet)`` with faster convolutions; its parameters are those of `model` itself.

    Matrices are made from the parameters at every call, so that an optimiser may change them at any time, in a
    captured CUDA graph too. The first call makes a table and must not be captured.
    """

    def __init__(self, model: nn.Module, products: Products = "tf32") -> None:
        super().__init__()
        if (reason := why_not_training(model)) is not None:
            raise ModelError(
                f"the fast training of LeNet cannot take this network ({reason}): train it as it is"
            )
        self.model, self.products = model, products
        self._tables: dict[torch.device, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(self.model, nn.Sequential)
        first, net = self.model
        assert isinstance(net, LeNet)
        if x.shape[1:] != (1, 28, 28) or x.dtype != torch.float32:
            raise ModelError(
                f"LeNet takes float32 images [B, 1, 28, 28], found {x.dtype} {list(x.shape)}"
            )
        if x.device not in self._tables:
            self._tables[x.device] = _index().to(x.device)
        conv1, conv2, table = net.conv1, net.conv2, self._tables[x.device]
        assert conv1.bias is not None
        assert conv2.bias is not None
        h = features(
            first(x), conv1.weight, conv1.bias, conv2.weight, conv2.bias, table, self.products
        )
        logits: Tensor = net.fc2(F.relu(net.fc1(h)))
        return logits


def features(
    x: Tensor,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    index: Tensor,
    products: Products = "tf32",
) -> Tensor:
    """What LeNet gives to its first linear layer, [B, 800], of images [B, 1, 28, 28]; `index` is that of _index()."""
    h: Tensor = ConvPool.apply(x, w1, b1, w2, b2, index, products)  # type: ignore[no-untyped-call]
    return h


class ConvPool(torch.autograd.Function):
    """Both convolutions with their ReLU and pooling."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        index: Tensor,
        products: Products,
    ) -> Tensor:
        count, x = len(x), x.contiguous()
        packed = x.new_empty(sum(_SIZES))
        kernels.pack[(len(packed) // 2048,)](
            w1.contiguous(), w2.contiguous(), index, packed, BLOCK=2048
        )
        forward1, back1, forward2, back2 = packed.split_with_sizes(_SIZES)
        a, code1 = x.new_empty(count, 12, 12, 20), x.new_empty(count, 12, 12, 20, dtype=torch.int8)
        grid: tuple[int, ...] = (triton.cdiv(36 * count, _CONV1["M"]),)
        kernels.conv1_pool[grid](x, forward1, b1, a, code1, count, PRECISION=products, **_CONV1)
        h, code2 = x.new_empty(count, 800), x.new_empty(count, 800, dtype=torch.int8)
        grid = (triton.cdiv(16 * count, _CONV2["M"]), 2)
        kernels.conv2_pool[grid](a, forward2, b2, h, code2, count, PRECISION=products, **_CONV2)
        # matrices are kept, not made again: backward needs the filters of this forward
        ctx.products, weights = products, any(ctx.needs_input_grad[1:])
        ctx.save_for_backward(
            x if weights else None, a if weights else None, code1, code2, back1, back2
        )
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, a, code1, code2, back1, back2 = ctx.saved_tensors
        grad, products = grad.contiguous(), ctx.products
        need_x, need_w1, need_b1, need_w2, need_b2 = ctx.needs_input_grad[:5]
        grad_x = grad_w1 = grad_b1 = grad_w2 = grad_b2 = None
        if need_w2 or need_b2:
            grad_w2, grad_b2 = _filters2(grad, code2, a, products)
        if need_x or need_w1 or need_b1:
            windows = _windows2(grad, code2, back2, products)
            if need_w1 or need_b1:
                grad_w1, grad_b1 = _filters1(x, windows, code1, products)
            if need_x:
                grad_x = _image(windows, code1, back1, products)
        return grad_x, grad_w1, grad_b1, grad_w2, grad_b2, None, None


def _windows2(grad: Tensor, code: Tensor, weight: Tensor, products: Products) -> Tensor:
    count = len(grad)
    windows = grad.new_empty(count, 16, 6, 120)
    grid = (triton.cdiv(16 * count, _CONV2_BACK["M"]), 6)
    kernels.conv2_back[grid](grad, code, weight, windows, count, PRECISION=products, **_CONV2_BACK)
    return windows


def _image(windows2: Tensor, code: Tensor, weight: Tensor, products: Products) -> Tensor:
    count = len(windows2)
    windows = windows2.new_empty(count, 36, 64)
    grid = (triton.cdiv(36 * count, _CONV1_BACK["M"]),)
    kernels.conv1_back[grid](
        windows2, code, weight, windows, count, PRECISION=products, **_CONV1_BACK
    )
    image = windows.new_empty(count, 1, 28, 28)
    kernels.add_windows1[(count,)](windows, image)
    return image


def _filters2(grad: Tensor, code: Tensor, a: Tensor, products: Products) -> tuple[Tensor, Tensor]:
    count = len(grad)
    shares = min(_SHARES2, triton.cdiv(16 * count, _CONV2_WEIGHTS["R"]))
    parts = grad.new_empty(
        shares, 5, 2, 64, 128
    )  # share, filter line, neighbour, channel, pixel and channel below
    shift = grad.new_empty(shares, 10, 64)
    kernels.conv2_weights[(10, shares)](
        grad, code, a, parts, shift, count, PRECISION=products, **_CONV2_WEIGHTS
    )
    share, line, neighbour, channel, below = parts.stride()
    # the right neighbour's filters begin a pixel (20 values) further: [share, neighbour, 50, 20, 5, 5]
    strides = (share, neighbour + 20, channel, below, line, 20)
    weight = parts.as_strided((shares, 2, 50, 20, 5, 5), strides).sum((0, 1))
    return weight, shift[:, :2, :50].sum((0, 1))


def _filters1(
    x: Tensor, windows2: Tensor, code: Tensor, products: Products
) -> tuple[Tensor, Tensor]:
    count = len(x)
    shares = min(_SHARES1, triton.cdiv(36 * count, _CONV1_WEIGHTS["R"]))
    # share, position a, b of pooling, pixel y, x of the window, output i, j of the group, channel
    parts = x.new_empty(shares, 2, 2, 8, 8, 2, 2, 20)
    shift = x.new_empty(shares, 4, 4, 20)
    kernels.conv1_weights[(4, shares)](
        x, windows2, code, parts, shift, count, PRECISION=products, **_CONV1_WEIGHTS
    )
    share, a, b, y, x_, i, j, channel = parts.stride()
    # the filter of a, b, i, j begins at pixel 2i + a, 2j + b of the window: [share, a, b, i, j, 20, 1, 5, 5]
    strides = (share, a + y, b + x_, i + 2 * y, j + 2 * x_, channel, 0, y, x_)
    weight = parts.as_strided((shares, 2, 2, 2, 2, 20, 1, 5, 5), strides).sum((0, 1, 2, 3, 4))
    return weight, shift.sum((0, 1, 2))


def _index() -> Tensor:
    """Where the kernel `pack` finds each element of its matrices."""
    zero = _FILTERS1 + _FILTERS2
    filters1 = torch.arange(_FILTERS1).view(20, 5, 5)
    matrix1 = torch.full(
        (2, 2, 2, 2, 20, 8, 8), zero
    )  # position a, b of pooling, output i, j of the group, ...
    for a in range(2):
        for b in range(2):
            for i in range(2):
                for j in range(2):
                    top, left = 2 * i + a, 2 * j + b
                    matrix1[a, b, i, j, :, top : top + 5, left : left + 5] = filters1
    matrix1 = matrix1.view(4, 80, 64)
    # line, channel, pixel, below
    filters2 = torch.arange(_FILTERS1, zero).view(50, 20, 5, 5).permute(2, 0, 3, 1)
    matrix2 = torch.full((5, 64, 2, 128), zero)  # line, channel, neighbour, pixel and channel below
    for neighbour in range(2):
        start = neighbour * 20
        matrix2[:, :50, neighbour, start : start + 100] = filters2.reshape(5, 50, 100)
    matrices = [matrix1, matrix1.transpose(1, 2), matrix2, matrix2.permute(0, 2, 3, 1)]
    return torch.cat([matrix.flatten() for matrix in matrices]).int()
