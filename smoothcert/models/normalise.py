"""The normalisation as first layer of a classifier, so that noise, attacks and radii are in units of the image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smoothcert.errors import ModelError, unknown_name

RGB = tuple[float, float, float]
CIFAR10_MEAN: RGB = (0.4914, 0.4822, 0.4465)
IMAGENET_MEAN: RGB = (0.485, 0.456, 0.406)

# name -> (mean, std); std None subtracts the mean only, as the CIFAR-10 and ImageNet models of SmoothAdv do
NORMALISATIONS: dict[str, tuple[RGB, RGB | None] | None] = {
    "none": None,
    "cifar10": (CIFAR10_MEAN, (0.2023, 0.1994, 0.2010)),
    "cifar10-mean": (CIFAR10_MEAN, None),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "imagenet": (IMAGENET_MEAN, (0.229, 0.224, 0.225)),
    "imagenet-mean": (IMAGENET_MEAN, None),
}


class Normalise(nn.Module):
    """(x - mean) / std per channel.

    The constants are non-persistent buffers: they follow the model to its device but are not in the state
    dict, whose keys are then those of the published checkpoints.
    """

    mean: Tensor
    std: Tensor | None

    def __init__(self, mean: Sequence[float], std: Sequence[float] | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)  # [C, 1, 1]
        scale = None if std is None else torch.tensor(std).view(-1, 1, 1)
        self.register_buffer("std", scale, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-3] != len(self.mean):  # a grey image would broadcast to three channels without an error
            raise ModelError(
                f"the model normalises {len(self.mean)} channels but got images {list(x.shape)} "
                "(batch, channel, height, width): build it with another normalisation, or give it the "
                "images it is made for"
            )
        x = x - self.mean
        return x if self.std is None else x / self.std

    def extra_repr(self) -> str:
        std = None if self.std is None else self.std.flatten().tolist()
        return f"mean={self.mean.flatten().tolist()}, std={std}"


def normalisation_layer(name: str) -> nn.Module:
    """The first layer of that name; "none" is the identity."""
    if name not in NORMALISATIONS:
        raise unknown_name("normalisation", name, NORMALISATIONS)
    constants = NORMALISATIONS[name]
    return nn.Identity() if constants is None else Normalise(*constants)
