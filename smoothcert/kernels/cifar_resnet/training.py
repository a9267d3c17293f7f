"""The CIFAR ResNets in training, with kernels of our own where cuDNN's are slow or PyTorch's are many.

A training pass normalises, adds the shortcut and applies ReLU in one go (norm.py). An attack step is a forward and an
input gradient in eval mode, with frozen parameters: BatchNorm is folded into the convolutions there, at every call.
Blocks without a stride have convolutions of their own, too (residual.py); in bfloat16 and where a GPU allows it, all
frozen ones of a stage are one kernel (frozen_stage.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, cast

import torch
import torch.nn.functional as F
import triton
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from smoothcert.devices.launching import launch_on
from smoothcert.errors import ModelError
from smoothcert.kernels.cifar_resnet import frozen_stage
from smoothcert.kernels.cifar_resnet.conv import CHANNELS, arrangement
from smoothcert.kernels.cifar_resnet.entry import why_not_training
from smoothcert.kernels.cifar_resnet.norm import channels_last, norm_relu
from smoothcert.kernels.cifar_resnet.residual import frozen_blocks, layers_of, trained_blocks
from smoothcert.kernels.cifar_resnet.routes import Layer, Routes
from smoothcert.kernels.cifar_resnet.training_kernels import bias_relu
from smoothcert.kernels.cifar_resnet.weights import Weight, Weights
from smoothcert.models.cifar_resnet import BasicBlock, CifarResNet

_BLOCK = 1024


class FastResNetTraining(nn.Module):
    """`model`, ``Sequential(normalisation, CifarResNet)``, faster in training mode, and in eval mode if it is frozen.

    `plain` is what runs else: the model itself, or a module around it that shares its parameters. No parameter is kept
    between calls, so that an optimiser may change them at any time, in a captured CUDA graph too; the first call makes
    tables and must not be captured. Hooks that modules get later are not called, and there are no second derivatives.
    """

    def __init__(self, model: nn.Module, plain: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        if (reason := why_not_training(model)) is not None:
            raise ModelError(
                f"the fast training of a ResNet cannot take this network ({reason}): train it as it is"
            )
        self.model, self.plain, self.dtype = model, plain, dtype
        pairs, blocks = (
            list(_pairs(self._net)),
            [block for block in _blocks(self._net) if _is_ours(block)],
        )
        ours = [conv for block in blocks for conv in (block.conv1, block.conv2)]
        self._norms, self._weights = [norm for _, norm in pairs], Weights(pairs, ours, arrangement)
        self._staged = Weights(pairs, ours, frozen_stage.arrangement)
        self._ours = Weights([pair for pair in pairs if pair[0] in ours], ours, arrangement)
        self._stages: list[tuple[list[Layer], Routes]] = []  # with what is ours of them
        for stage in (self._net.layer1, self._net.layer2, self._net.layer3):
            layers = layers_of(
                [block for block in cast(Iterator[BasicBlock], stage) if _is_ours(block)]
            )
            self._stages.append((layers, Routes(layers)))

    def forward(self, x: Tensor) -> Tensor:
        with (
            launch_on(x.device),
            torch.autocast(x.device.type, enabled=False),
        ):  # types here are our own affair
            if len(x) and all(norm.training and norm.momentum is not None for norm in self._norms):
                return self._train(x)
            if not self._in_training():
                return self._attack(x)
        logits: Tensor = self.plain(x)
        return logits

    def _in_training(self) -> bool:
        """Whether a call moves statistics, or gradients of parameters are wanted."""
        moves = any(norm.training for norm in self._norms)
        return moves or any(parameter.requires_grad for parameter in self.model.parameters())

    def _train(self, x: Tensor) -> Tensor:
        net, weights = self._net, self._ours.as_they_are(self.dtype)
        torch._foreach_add_(
            cast(list[Tensor], [norm.num_batches_tracked for norm in self._norms]), 1
        )
        x = norm_relu(self._conv(net.conv1, self._start(x)), net.bn1)
        for stage, (layers, routes) in zip(
            (net.layer1, net.layer2, net.layer3), self._stages, strict=True
        ):
            for block in cast(Iterator[BasicBlock], stage):
                if _is_ours(block):
                    break  # they follow all others
                shortcut = x
                if isinstance(block.downsample, nn.Sequential):
                    conv, norm = cast(tuple[nn.Conv2d, nn.BatchNorm2d], block.downsample)
                    shortcut = norm_relu(self._conv(conv, x), norm, relu=False)
                x = norm_relu(self._conv(block.conv1, x), block.bn1)
                x = norm_relu(self._conv(block.conv2, x), block.bn2, shortcut)
            x = trained_blocks(x, layers, [next(weights) for _ in layers], routes) if layers else x
        return _end(x, net)

    def _attack(self, x: Tensor) -> Tensor:
        net, staged = self._net, frozen_stage.takes(x, self.dtype)
        layers = (self._staged if staged else self._weights).folded(self.dtype)
        blocks = frozen_stage.staged_blocks if staged else frozen_blocks
        x = _relu(net.conv1, *next(layers), self._start(x))
        for stage in (net.layer1, net.layer2, net.layer3):
            ours = []  # they follow all others
            for block in cast(Iterator[BasicBlock], stage):
                one, two = next(layers), next(layers)
                if _is_ours(block):
                    ours += [one, two]
                    continue
                shortcut = x
                if isinstance(block.downsample, nn.Sequential):
                    conv, (weight, bias) = cast(nn.Conv2d, block.downsample[0]), next(layers)
                    shortcut = F.conv2d(
                        x, weight.plain, bias.to(x.dtype), conv.stride, conv.padding
                    )
                x = _relu(block.conv2, *two, _relu(block.conv1, *one, x), shortcut)
            x = blocks(x, ours) if ours else x
        return _end(x, net)

    @property
    def _net(self) -> CifarResNet:
        return cast(CifarResNet, cast(nn.Sequential, self.model)[1])

    def _start(self, x: Tensor) -> Tensor:
        first = cast(nn.Sequential, self.model)[0]
        return cast(Tensor, first(x)).to(dtype=self.dtype, memory_format=torch.channels_last)

    def _conv(self, conv: nn.Conv2d, x: Tensor) -> Tensor:
        return F.conv2d(x, conv.weight.to(self.dtype), None, conv.stride, conv.padding)


def _is_ours(block: BasicBlock) -> bool:
    return isinstance(block.downsample, nn.Identity) and block.conv1.in_channels in CHANNELS


def _blocks(net: CifarResNet) -> Iterator[BasicBlock]:
    yield from cast(Iterator[BasicBlock], chain(net.layer1, net.layer2, net.layer3))


def _end(x: Tensor, net: CifarResNet) -> Tensor:
    return F.linear(x.float().mean(dim=(2, 3)), net.fc.weight, net.fc.bias)


def _pairs(net: CifarResNet) -> Iterator[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Each convolution with its BatchNorm, in the order of use."""
    yield net.conv1, net.bn1
    for block in _blocks(net):
        yield block.conv1, block.bn1
        yield block.conv2, block.bn2
        if isinstance(block.downsample, nn.Sequential):
            yield cast(tuple[nn.Conv2d, nn.BatchNorm2d], tuple(block.downsample))


def _relu(
    conv: nn.Conv2d, weight: Weight, bias: Tensor, x: Tensor, shortcut: Tensor | None = None
) -> Tensor:
    y = F.conv2d(x, weight.plain, None, conv.stride, conv.padding)
    out: Tensor = BiasReLU.apply(y, bias, shortcut)  # type: ignore[no-untyped-call]
    return out


class BiasReLU(torch.autograd.Function):
    """relu(x + bias [+ shortcut]) of channels-last tensors; no gradient for the bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, shortcut: Tensor | None) -> Tensor:
        x = channels_last(x)
        out, other = torch.empty_like(x), x if shortcut is None else channels_last(shortcut)
        grid = (triton.cdiv(x.numel(), _BLOCK),)
        add = shortcut is not None
        bias_relu[grid](x, bias, other, out, x.numel(), CHANNELS=x.shape[1], ADD=add, BLOCK=_BLOCK)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor | None]:
        (out,) = ctx.saved_tensors
        down = torch.ops.aten.threshold_backward(grad, out, 0.0)
        return down, None, down if ctx.needs_input_grad[2] else None
