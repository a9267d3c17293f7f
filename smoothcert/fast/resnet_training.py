"""The CIFAR ResNets in training: what lies between cuDNN's convolutions is bound by memory, and has kernels of our own.

A training pass normalises, adds the shortcut and applies ReLU in one go (norm.py). An attack step is a forward and an
input gradient in eval mode, with frozen parameters: BatchNorm is folded into the convolutions there, at every call.
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

from smoothcert.fast.misfits import not_cifar_resnet
from smoothcert.fast.norm import norm_relu
from smoothcert.fast.resnet_training_kernels import bias_relu
from smoothcert.models.cifar_resnet import BasicBlock, CifarResNet

_BLOCK = 1024


class FastResNetTraining(nn.Module):
    """`model`, ``Sequential(normalisation, CifarResNet)``, faster in training mode, and in eval mode if it is frozen.

    `plain` is what runs else: the model itself, or a module around it that shares its parameters. Nothing is kept
    between calls, so that an optimiser may change the parameters at any time, in a captured CUDA graph too.
    """

    @staticmethod
    def misfit(model: nn.Module) -> str | None:
        """Why this cannot stand for a model, or None."""
        return not_cifar_resnet(model)

    def __init__(self, model: nn.Module, plain: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.plain, self.dtype = model, plain, dtype
        assert isinstance(model, nn.Sequential)
        self._pairs = list(_pairs(model[1]))
        # by this the scale of each output channel gets to all its weights; made at the first call, never in a graph
        self._channel: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        wanted = any(parameter.requires_grad for parameter in self.model.parameters())
        if all(norm.training for _, norm in self._pairs):
            return self._train(x)
        if self.model.training or wanted:
            logits: Tensor = self.plain(x)
            return logits
        return self._attack(x)

    def _train(self, x: Tensor) -> Tensor:
        x, net = self._start(x)
        torch._foreach_add_(cast(list[Tensor], [norm.num_batches_tracked for _, norm in self._pairs]), 1)
        x = norm_relu(self._conv(net.conv1, x), net.bn1)
        for block in _blocks(net):
            shortcut = x
            if isinstance(block.downsample, nn.Sequential):
                conv, norm = cast(tuple[nn.Conv2d, nn.BatchNorm2d], block.downsample)
                shortcut = norm_relu(self._conv(conv, x), norm, relu=False)
            x = norm_relu(self._conv(block.conv1, x), block.bn1)
            x = norm_relu(self._conv(block.conv2, x), block.bn2, shortcut)
        return _end(x, net)

    def _attack(self, x: Tensor) -> Tensor:
        x, net = self._start(x)
        layers = iter(self._folded())
        x = next(layers).relu(x)
        for block in _blocks(net):
            one, two = next(layers), next(layers)
            shortcut = x if isinstance(block.downsample, nn.Identity) else next(layers).plain(x)
            x = two.relu(one.relu(x), shortcut)
        return _end(x, net)

    def _start(self, x: Tensor) -> tuple[Tensor, CifarResNet]:
        first, net = cast(tuple[nn.Module, CifarResNet], self.model)
        return first(x).to(dtype=self.dtype, memory_format=torch.channels_last), net

    def _conv(self, conv: nn.Conv2d, x: Tensor) -> Tensor:
        return F.conv2d(x, conv.weight.to(self.dtype), None, conv.stride, conv.padding)

    @torch.no_grad()
    def _folded(self) -> list[_Layer]:
        """Convolutions with the BatchNorm after each in their weights, in the order of use: a dozen launches."""
        convs, norms = zip(*self._pairs, strict=True)
        sizes = [norm.num_features for norm in norms]
        if self._channel is None:
            each = torch.tensor(
                [conv.weight[0].numel() for conv, size in zip(convs, sizes, strict=True) for _ in range(size)]
            )
            self._channel = torch.arange(len(each)).repeat_interleave(each).to(convs[0].weight.device)
        mean, variance, gamma, beta = (
            torch.cat([getattr(norm, name) for norm in norms])
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        scale = gamma * (variance + norms[0].eps).rsqrt()
        biases = (beta - mean * scale).split(sizes)
        # in channels-last order, which is that of their memory
        flat = torch.cat([conv.weight.permute(0, 2, 3, 1).reshape(-1) for conv in convs])
        weights = (flat * scale[self._channel]).to(self.dtype).split([conv.weight.numel() for conv in convs])
        layers = []
        for conv, weight, bias in zip(convs, weights, biases, strict=True):
            outputs, inputs, height, width = conv.weight.shape
            shaped = weight.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
            layers.append(_Layer(shaped, bias, conv.stride, conv.padding))
        return layers


def _blocks(net: CifarResNet) -> Iterator[BasicBlock]:
    yield from cast(Iterator[BasicBlock], chain(net.layer1, net.layer2, net.layer3))


def _end(x: Tensor, net: CifarResNet) -> Tensor:
    return F.linear(x.float().mean(dim=(2, 3)), net.fc.weight, net.fc.bias)


def _pairs(net: nn.Module) -> Iterator[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Each convolution with its BatchNorm, in the order of use."""
    assert isinstance(net, CifarResNet)
    yield net.conv1, net.bn1
    for block in _blocks(net):
        yield block.conv1, block.bn1
        yield block.conv2, block.bn2
        if isinstance(block.downsample, nn.Sequential):
            conv, norm = block.downsample
            assert isinstance(conv, nn.Conv2d)
            assert isinstance(norm, nn.BatchNorm2d)
            yield conv, norm


class _Layer:
    def __init__(self, weight: Tensor, bias: Tensor, stride: Any, padding: Any) -> None:
        self.weight, self.bias, self.stride, self.padding = weight, bias, stride, padding

    def relu(self, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
        y = F.conv2d(x, self.weight, None, self.stride, self.padding)
        out: Tensor = BiasReLU.apply(y, self.bias, shortcut)  # type: ignore[no-untyped-call]
        return out

    def plain(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias.to(x.dtype), self.stride, self.padding)


class BiasReLU(torch.autograd.Function):
    """relu(x + bias [+ shortcut]) of channels-last tensors; no gradient for the bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, shortcut: Tensor | None) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if shortcut is not None:
            shortcut = shortcut.contiguous(memory_format=torch.channels_last)
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), _BLOCK),)
        add, other = shortcut is not None, x if shortcut is None else shortcut
        bias_relu[grid](x, bias, other, out, x.numel(), CHANNELS=x.shape[1], ADD=add, BLOCK=_BLOCK)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor | None]:
        (out,) = ctx.saved_tensors
        down = torch.ops.aten.threshold_backward(grad, out, 0.0)
        return down, None, down if ctx.needs_input_grad[2] else None
