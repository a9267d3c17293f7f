"""Networks whose answers are known: in closed form, or in whole numbers, which every machine adds alike."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
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


class SumOfPixels(nn.Module):
    """The class is the sum of all grey values, in so wide steps, modulo 10.

    Sums of whole numbers below 2^24 are exact, so that no batch size, thread or device rounds them.
    With a step of 1, one other value of the noise moves the vote; with wide ones, one class has
    most of the votes.
    """

    def __init__(self, step=1):
        super().__init__()
        self.step = step

    def forward(self, x):
        total = (x.float() * 255).round().flatten(1).sum(1).long()
        return F.one_hot(total // self.step % 10, 10).float()


def assert_few_flips(found, expected):
    """Counts of one image whose network was evaluated in other batches: rounding decides few votes.

    The limit is that of `verify --resample`.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.sum() == expected.sum()
    assert np.abs(found - expected).sum() / 2 <= max(3, expected.sum() / 100)


def whole_numbers(model, seed=0):
    """Weights of -1, 0 and 1: with whole pixels, sums are exact in any order.

    Each sum has about ten terms that are not 0, so that float16 can hold it after many layers.
    """
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        signs = torch.randint(0, 2, parameter.shape, generator=generator) * 2 - 1
        kept = torch.rand(parameter.shape, generator=generator) < 10 / parameter[0].numel()
        parameter.data = (signs * kept).to(parameter)
    return model.eval()


def whole_images(*shape, seed=0):
    """Pixels of -2 to 2."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).float()
