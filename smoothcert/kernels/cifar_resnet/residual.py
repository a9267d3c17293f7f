"""Residual blocks whose convolutions are those of conv.py: frozen ones, for attacks, and ones in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from smoothcert.kernels.cifar_resnet.conv import conv3x3, weight_gradient
from smoothcert.kernels.cifar_resnet.norm import Normed, channels_last, gradients, normed
from smoothcert.kernels.cifar_resnet.weights import Weight
from smoothcert.models.cifar_resnet import BasicBlock


def frozen_blocks(x: Tensor, layers: Sequence[tuple[Weight, Tensor]]) -> Tensor:
    """Blocks x -> relu(x + conv2(relu(conv1(x)))), each of two layers with weight and bias; only x has a gradient."""
    out: Tensor = FrozenBlocks.apply(x, layers)  # type: ignore[no-untyped-call]
    return out


class FrozenBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[tuple[Weight, Tensor]]) -> Tensor:
        x, found = channels_last(x), []
        for (one, bias1), (two, bias2) in zip(layers[::2], layers[1::2], strict=True):
            middle = conv3x3(x, one.plain, bias1, relu=True)
            x = conv3x3(middle, two.plain, bias2, shortcut=x, relu=True)
            found += [middle, x]
        ctx.save_for_backward(*found)
        ctx.mirrored = [weight.mirrored for weight, _ in layers]
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        found = ctx.saved_tensors
        gradient = torch.ops.aten.threshold_backward(channels_last(gradient), found[-1], 0.0)
        for k in range(len(found) - 2, -1, -2):
            middle = conv3x3(gradient, ctx.mirrored[k + 1], active=found[k])
            # what comes out is the gradient of the block before, already behind its ReLU
            gradient = conv3x3(middle, ctx.mirrored[k], shortcut=gradient, active=found[k - 1] if k else None)
        return gradient, None


def trained_block(x: Tensor, block: BasicBlock, weights: tuple[Weight, Weight]) -> Tensor:
    """Such a block in training, where all have gradients; `weights` are those of its convolutions."""
    one, two = block.bn1, block.bn2
    parameters = block.conv1.weight, block.conv2.weight, one.weight, one.bias, two.weight, two.bias
    out: Tensor = TrainedBlock.apply(x, *parameters, block, weights)  # type: ignore[no-untyped-call]
    return out


class TrainedBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *rest: Any) -> Tensor:
        *_, block, (one, two) = rest
        x = channels_last(x)
        middle = normed(conv3x3(x, one.plain), block.bn1)
        end = normed(conv3x3(middle.out, two.plain), block.bn2, shortcut=x)
        ctx.save_for_backward(x, *middle, *end)
        ctx.mirrored = one.mirrored, two.mirrored
        return end.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        middle, end = Normed(*saved[:5]), Normed(*saved[5:])
        two = gradients(end, gradient, relu=True, add=True)
        to_weight2 = weight_gradient(two.x, middle.out)
        one = gradients(middle, conv3x3(two.x, ctx.mirrored[1]), relu=True, add=False)
        to_weight1 = weight_gradient(one.x, x)
        to_x = conv3x3(one.x, ctx.mirrored[0], shortcut=two.shortcut)
        return to_x, to_weight1, to_weight2, one.gamma, one.beta, two.gamma, two.beta, None, None
