"""ResNet-50 for ImageNet."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from smoothcert.models.residual import conv, he_initialise, shortcut, stage


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, the inner ones a quarter as wide; the stride is on the 3x3 one."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        width = outputs // 4
        self.conv1 = conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + self.downsample(x))


class ResNet50(nn.Module):
    """Four stages of 3, 4, 6 and 3 bottlenecks; images [B, 3, 224, 224].

    He et al. (2016), table 1, in torchvision's variant (the paper has the stride in the first 1x1
    convolution), with torchvision's initialisation and its parameter names, as in the published checkpoints.
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = stage(Bottleneck, 64, 256, 3, 1)
        self.layer2 = stage(Bottleneck, 256, 512, 4, 2)
        self.layer3 = stage(Bottleneck, 512, 1024, 6, 2)
        self.layer4 = stage(Bottleneck, 1024, 2048, 3, 2)
        self.fc = nn.Linear(2048, classes)
        he_initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))  # [B, 64, 112, 112]
        x = F.max_pool2d(x, 3, 2, padding=1)  # [B, 64, 56, 56]
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # [B, 2048, 7, 7]
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits
