"""Residual blocks whose convolutions are those of conv.py: frozen ones, for attacks, and ones in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from smoothcert.kernels.cifar_resnet.conv import (
    WeightGradients,
    conv3x3,
    conv_with_moments,
    conv_with_sums,
)
from smoothcert.kernels.cifar_resnet.norm import (
    Normed,
    added_up,
    channels_last,
    gradient_of_x,
    gradient_sums,
    normed,
)
from smoothcert.kernels.cifar_resnet.routes import Layer, Routes
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
            gradient = conv3x3(
                middle, ctx.mirrored[k], shortcut=gradient, active=found[k - 1] if k else None
            )
        return gradient, None


def layers_of(blocks: Sequence[BasicBlock]) -> list[Layer]:
    return [pair for b in blocks for pair in ((b.conv1, b.bn1), (b.conv2, b.bn2))]


def trained_blocks(
    x: Tensor, layers: Sequence[Layer], weights: Sequence[Weight], routes: Routes
) -> Tensor:
    """Such blocks in training, where all have gradients; `weights` are those of their convolutions."""
    norms = [norm for _, norm in layers]
    out: Tensor = TrainedBlocks.apply(x, norms, weights, *routes.towards())  # type: ignore[no-untyped-call]
    return out


class TrainedBlocks(torch.autograd.Function):
    """Layers of convolution, norm and ReLU; before the ReLU of every second one the shortcut is added."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        norms: Sequence[nn.BatchNorm2d],
        weights: Sequence[Weight],
        to_weights: Tensor,
        to_norms: Tensor,
    ) -> Tensor:
        start = before = shortcut = channels_last(x)
        made = []
        for k, (norm, weight) in enumerate(zip(norms, weights, strict=True)):
            out, parts = conv_with_moments(before, weight.plain)
            made.append(normed(out, norm, shortcut if k % 2 else None, parts=parts))
            before = made[-1].out
            shortcut = before if k % 2 else shortcut
        ctx.save_for_backward(start, *(tensor for layer in made for tensor in layer))
        ctx.mirrored = [weight.mirrored for weight in weights]
        return before

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        start, *saved = ctx.saved_tensors
        made = [Normed(*saved[i : i + 5]) for i in range(0, len(saved), 5)]
        weights = WeightGradients(start, len(made))
        sums = start.new_empty(
            (len(made), 2, start.shape[1]), dtype=torch.float32
        )  # gradients of beta and gamma
        # from here on the gradient is that of what goes into a ReLU
        gradient = torch.ops.aten.threshold_backward(channels_last(gradient), made[-1].out, 0.0)
        gradient_sums(made[-1], gradient, relu=False, out=sums[-1])
        to_shortcut = gradient
        for k in range(len(made) - 1, -1, -1):
            to_conv = gradient_of_x(made[k], gradient, sums[k])
            weights.add(k, to_conv, made[k - 1].out if k else start)
            if k % 2:
                to_shortcut = gradient
            if k:
                add = None if k % 2 else to_shortcut
                gradient, parts = conv_with_sums(to_conv, ctx.mirrored[k], made[k - 1], add)
                added_up(parts[None], out=sums[k - 1 : k])
        to_x = conv3x3(to_conv, ctx.mirrored[0], shortcut=to_shortcut)
        return to_x, None, None, weights.all(), sums.flatten(0, 1)
