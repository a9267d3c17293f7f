"""A classifier whose smoothed probabilities and true radii are known in closed form."""

import numpy as np
import pytest
import torch
from torch import nn

SHAPE = (1, 8, 8)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


class Linear(nn.Module):
    """Two classes split by the plane w.x = b with |w| = 1: p_A = Phi(margin / sigma), true radius = |margin|."""

    def __init__(self, seed=0):
        super().__init__()
        w = torch.from_numpy(np.random.default_rng(seed).standard_normal(SHAPE)).float()
        self.register_buffer("w", w / w.norm())

    def forward(self, x):
        score = ((x - 0.5) * self.w).flatten(1).sum(1)
        return torch.stack([score, -score], 1)

    def image_at(self, margin):
        """An image (floats in [0,1], not on the 8-bit grid) at a signed distance from the plane."""
        return 0.5 + margin * self.w


class OnePixel(nn.Module):
    """Class 0 where the first pixel is above grey: whatever the norm, the true radius is that pixel's margin."""

    def forward(self, x):
        score = x[:, 0, 0, 0] - 127.5 / 255
        return torch.stack([score, -score], 1)


class Returns(nn.Module):
    """What a function makes of a batch."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def two(score):
    """Logits of two classes."""
    return torch.stack([score, -score], 1)
