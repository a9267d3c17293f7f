"""LeNet as the smoothing papers use it on MNIST and Fashion-MNIST."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class LeNet(nn.Module):
    """Two 5x5 convolutions (20, 50), each with ReLU and 2x2 max-pooling, then 800-500-classes.

    Images [B, 1, 28, 28]. No batch normalisation and no dropout; PyTorch's default initialisation. Parameter
    names are those of the published checkpoints (MACER, Consistency, SmoothMix, CAT-RS). The model `mini` that
    comes with the package is narrower.
    """

    def __init__(
        self, classes: int = 10, first: int = 20, second: int = 50, hidden: int = 500
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, first, 5)
        self.conv2 = nn.Conv2d(first, second, 5)
        self.fc1 = nn.Linear(second * 4 * 4, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)  # [B, first, 12, 12]
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)  # [B, second, 4, 4]
        logits: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return logits
