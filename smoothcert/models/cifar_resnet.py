"""The CIFAR residual networks: ResNet-20, ResNet-110 and every other depth 6n+2."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from smoothcert.errors import ConfigError
from smoothcert.models.residual import conv, he_initialise, shortcut, stage


class BasicBlock(nn.Module):
    """Two 3x3 convolutions; ReLU after the first normalisation and after the addition (post-activation)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.downsample(x))


class CifarResNet(nn.Module):
    """A stem and three stages of n = (depth - 2) / 6 blocks, 16, 32 and 64 wide; images [B, 3, 32, 32].

    He et al. (2016), section 4.2, but with option B shortcuts, as in the smoothing papers' code (He et al.
    use A on CIFAR). Parameter names are those of the published checkpoints. Their code pools 8x8; the mean
    over the whole map is the same on 32x32 images and takes other sizes too.
    """

    def __init__(self, depth: int, classes: int = 10) -> None:
        super().__init__()
        blocks, rest = divmod(depth - 2, 6)
        if rest or blocks < 1:
            raise ConfigError(
                f"a CIFAR ResNet has depth 6n+2 (20, 32, 44, 56, 110, ...), not {depth}; "
                "for an ImageNet network other than resnet50 give torchvision:NAME or timm:NAME"
            )
        self.conv1 = conv(3, 16, 3)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = stage(BasicBlock, 16, 16, blocks, 1)
        self.layer2 = stage(BasicBlock, 16, 32, blocks, 2)
        self.layer3 = stage(BasicBlock, 32, 64, blocks, 2)
        self.fc = nn.Linear(64, classes)
        he_initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))  # [B, 16, 32, 32]
        x = self.layer3(self.layer2(self.layer1(x)))  # [B, 64, 8, 8]
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits
