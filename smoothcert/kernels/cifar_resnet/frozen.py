"""The host's side of frozen_kernels.py: a stage's blocks with folded, frozen weights in half precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from smoothcert.kernels.cifar_resnet import frozen_kernels as kernels
from smoothcert.kernels.cifar_resnet.norm import channels_last
from smoothcert.kernels.cifar_resnet.sampling import arranged, sizes_of_stage

# A program has few samples: an attack step of one training batch is to keep a whole GPU busy.
_TILES = {16: (128, 4), 32: (64, 4), 64: (32, 4)}  # patches of a warp, and warps


def weight_and_bias_places(channels: int) -> tuple[Tensor, Tensor]:
    """Which of the weights [channels, channels, 3, 3], and of the biases, the kernels read one after the other.

    Both are counted from 1 on; 0 stands for a weight that is zero.
    """
    weights = torch.arange(1.0, 9 * channels * channels + 1, dtype=torch.float64).view(1, channels, channels, 3, 3)
    biases = torch.arange(1.0, channels + 1, dtype=torch.float64)[None]
    weight, bias = arranged(weights, biases, torch.float64)
    return weight[0].long(), bias[0].long()


def fits(images: Tensor) -> bool:
    """Whether the kernels can be used in a network that gets such images."""
    return images.element_size() == 2 and images.shape[3] % 2 == 0 and len(images) > 0


def frozen_stage(x: Tensor, plain: Tensor, mirrored: Tensor, bias: Tensor) -> Tensor:
    """Blocks x -> relu(x + conv2(relu(conv1(x)))); only x has a gradient.

    The weights [convolutions, numbers] and biases are in the order of `weight_and_bias_places`; `mirrored` are those
    that convolve the gradient.
    """
    out: Tensor = FrozenStage.apply(x, plain, mirrored, bias)  # type: ignore[no-untyped-call]
    return out


class FrozenStage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, plain: Tensor, mirrored: Tensor, bias: Tensor) -> Tensor:
        sizes, images = _cut(x), _padded(x)
        groups, length = len(images) // sizes["GROUP"], sizes["TILES"] * sizes["PATCHES"] * sizes["WARPS"] * 8
        stopped = x.new_empty((len(plain) + 1, groups, length), dtype=torch.uint8)
        stopped[0] = 0
        kernels.blocks_forward[(groups,)](
            images,
            torch.zeros_like(images),
            plain,
            bias,
            stopped,
            len(plain) // 2,
            **sizes,
            WEIGHTS=plain.shape[1],
            num_warps=sizes["WARPS"],
        )
        out = _inside(images, x)
        ctx.save_for_backward(out, stopped, mirrored)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        out, stopped, mirrored = ctx.saved_tensors
        gradient = torch.ops.aten.threshold_backward(channels_last(gradient), out, 0.0)
        sizes, images = _cut(out), _padded(gradient)
        kernels.blocks_backward[(len(images) // sizes["GROUP"],)](
            images,
            torch.zeros_like(images),
            mirrored,
            stopped,
            len(mirrored) // 2,
            **sizes,
            WEIGHTS=mirrored.shape[1],
            num_warps=sizes["WARPS"],
        )
        return _inside(images, out), None, None, None


def _cut(x: Tensor) -> dict[str, int]:
    """The kernels' constants."""
    _, channels, height, width = x.shape
    number = {16: 0, 32: 1, 64: 2}[channels]
    sizes = sizes_of_stage(*_TILES[channels], number, (height << number, width << number))
    return {**sizes, "CHANNELS": channels}


def _padded(x: Tensor) -> Tensor:
    """[images, height + 2, width + 2, channels] with a border of zeros, and images of zeros to the end of a group."""
    count, channels, height, width = x.shape
    group = _cut(x)["GROUP"]
    images = x.new_zeros((-(-count // group) * group, height + 2, width + 2, channels))
    images[:count, 1:-1, 1:-1] = x.permute(0, 2, 3, 1)
    return images


def _inside(images: Tensor, like: Tensor) -> Tensor:
    return torch.empty_like(like).copy_(images[: len(like), 1:-1, 1:-1].permute(0, 3, 1, 2))
