"""LeNet as the smoothing papers use it on MNIST and Fashion-MNIST."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class LeNet(nn.Module):
    """Two 5x5 convolutions (20, 50), each with ReLU and 2x2 max-pooling, then 800-500-classes.

    Images [B, 1, 28, 28]. No batch normalisation and no dropout; PyTorch's default initialisation. Parameter
    names are those of the published checkpoints (MACER, Consistency, SmoothMix, CAT-RS).
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * 4 * 4, 500)
        self.fc2 = nn.Linear(500, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)  # [B, 20, 12, 12]
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)  # [B, 50, 4, 4]
        logits: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return logits
