"""What the CIFAR and the ImageNet residual networks have in common (He et al. 2016, arXiv:1512.03385)."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image size (up to the stride); no bias: batch normalisation follows."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Option B of the paper: a strided 1x1 projection where the shape changes, else the identity."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def stage(
    block: Callable[[int, int, int], nn.Module], inputs: int, outputs: int, blocks: int, stride: int
) -> nn.Sequential:
    """`blocks` residual blocks ``block(inputs, outputs, stride)``, of which the first changes the shape."""
    first = block(inputs, outputs, stride)
    return nn.Sequential(first, *(block(outputs, outputs, 1) for _ in range(blocks - 1)))


def he_initialise(net: nn.Module) -> None:
    """Convolutions N(0, 2 / (k*k*out)) (He, fan-out); batch normalisation has gamma 1, beta 0 already."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
