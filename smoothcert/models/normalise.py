"""What a network expects of its inputs, as its first layer: noise, attacks and radii stay in units of the image.

Images are in [0, 1]. A normalisation is a name, or a text that says what the network was trained on:

    size=224x224 range=0,255 mean=123.7,116.3,103.5 std=58.4,57.1,57.4

`range` is where [0, 1] goes before mean and std, which are in its units; every part may be left out. With `size`, the
network looks at the image resized to height x width: the noise is still that of the image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from smoothcert.errors import ConfigError, ModelError, unknown_name

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

_LARGEST = 1e6  # number of a normalisation


class Normalise(nn.Module):
    """(x - mean) / std per channel, or by one value for all channels.

    The constants are non-persistent buffers: they follow the model to its device but are not in the state
    dict, whose keys are then those of the published checkpoints.
    """

    mean: Tensor
    std: Tensor | None

    def __init__(self, mean: Sequence[float], std: Sequence[float] | None = None) -> None:
        super().__init__()
        self.register_buffer(
            "mean", torch.tensor(mean).view(-1, 1, 1), persistent=False
        )  # [C, 1, 1]
        scale = None if std is None else torch.tensor(std).view(-1, 1, 1)
        self.register_buffer("std", scale, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        # a grey image would broadcast to three channels without an error
        if len(self.mean) > 1 and x.shape[-3] != len(self.mean):
            raise ModelError(
                f"the normalisation is of {len(self.mean)} channels, found images {list(x.shape)} "
                "(batch, channel, height, width): give another (none, for example), "
                "or the images that the network is made for"
            )
        x = x - self.mean
        return x if self.std is None else x / self.std

    def extra_repr(self) -> str:
        std = None if self.std is None else self.std.flatten().tolist()
        return f"mean={self.mean.flatten().tolist()}, std={std}"


class Resize(nn.Module):
    """Images resized to (height, width), bicubic; what is made smaller is smoothed first. Each image alone."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[-2:]) == self.size:
            return x
        return interpolate(x, self.size, mode="bicubic", align_corners=False, antialias=True)

    def extra_repr(self) -> str:
        return f"{self.size[0]}x{self.size[1]}"


@dataclass(frozen=True)
class InputForm:
    """What a network was trained on, in numbers."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    size: tuple[int, int] | None = None  # height, width

    def __post_init__(self) -> None:
        low, high = self.range
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ConfigError(
                f"the input range is two numbers, low then high, found {low:g} and {high:g}"
            )
        if self.mean and self.std and 1 < len(self.mean) != len(self.std) > 1:
            raise ConfigError(
                f"mean and std have one value, or one per channel, found {len(self.mean)} and {len(self.std)}"
            )
        if not all(math.isfinite(value) for value in (*self.mean, *self.std)) or not all(
            s > 0 for s in self.std
        ):
            raise ConfigError(
                f"mean and std are numbers, and std above 0, found {self.mean} and {self.std}"
            )
        if self.size is not None and min(self.size) < 1:
            raise ConfigError(f"a size is height x width, for example 224x224, found {self.size}")
        small, large = (high - low, *self.std), (low, high, *self.mean, *self.std)
        if (
            min(small) < 1 / _LARGEST or max(map(abs, large)) > _LARGEST
        ):  # float32 would make infinities of them
            raise ConfigError(
                f"input range, mean and std are at most {_LARGEST:g}, and std at least {1 / _LARGEST:g}, found "
                f"{self.range}, {self.mean} and {self.std}"
            )

    def text(self) -> str:
        """As a normalisation is written in settings and in model.json."""
        low, high = self.range
        parts = {
            "size": "x".join(map(str, self.size)) if self.size else "",
            "range": "" if self.range == (0, 1) else f"{low!r},{high!r}",
            "mean": ",".join(map(repr, self.mean)),
            "std": ",".join(map(repr, self.std)),
        }
        return " ".join(f"{name}={value}" for name, value in parts.items() if value) or "none"

    def layer(self) -> nn.Module:
        low, high = self.range
        width = max(len(self.mean), len(self.std), 1)
        mean, std = (
            (value * width if len(value) == 1 else value) for value in (self.mean, self.std)
        )
        # (low + (high - low) x - mean) / std, as one subtraction and one division
        shift = [(value - low) / (high - low) for value in mean or (0.0,) * width]
        scale = [value / (high - low) for value in std or (1.0,) * width]
        plain = not any(shift) and all(value == 1 for value in scale)
        affine = (
            nn.Identity()
            if plain
            else Normalise(shift, None if all(v == 1 for v in scale) else scale)
        )
        return affine if self.size is None else nn.Sequential(Resize(self.size), affine)


def input_form(text: str) -> InputForm:
    """What a name or a text of ``name=value`` parts says."""
    if "=" not in text:
        mean, std = _constants(text) or ((), None)
        return InputForm(mean, std or ())
    try:
        parts = dict(part.split("=", 1) for part in text.split())
        size = parts.pop("size", None)
        numbers = {name: tuple(map(float, value.split(","))) for name, value in parts.items()}
        height, width = map(int, size.split("x")) if size else (1, 1)
        return InputForm(**numbers, size=(height, width) if size else None)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"a normalisation is a name ({', '.join(NORMALISATIONS)}) or a text such as "
            f"'range=-1,1' or 'size=224x224 mean=0.5,0.5,0.5 std=0.2,0.2,0.2', found {text!r}"
        ) from error


def normalisation_layer(name: str) -> nn.Module:
    """The first layer of that name or text; "none" is the identity."""
    if "=" in name:
        return input_form(name).layer()
    constants = _constants(name)
    return nn.Identity() if constants is None else Normalise(*constants)


def _constants(name: str) -> tuple[RGB, RGB | None] | None:
    if name not in NORMALISATIONS:
        raise unknown_name("normalisation", name, NORMALISATIONS)
    return NORMALISATIONS[name]
