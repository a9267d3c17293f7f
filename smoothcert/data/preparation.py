"""How a picture of any size becomes the image that a network takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.data.image_file import MOST_PIXELS
from smoothcert.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Preparation:
    """Channels and size of the images, and what is done to pictures of other sizes.

    `resize` is what the shorter side becomes before the centre is cut out, or both sides where a
    picture is `stretched`. Without it pictures must have the size.
    """

    channels: int
    height: int
    width: int
    resize: int | None = None
    greyed: bool = (
        False  # whether colours may become grey; else a coloured picture among grey ones is refused
    )
    stretched: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width

    def __str__(self) -> str:
        """In words what is done; empty for nothing."""
        told = []
        if self.resize is not None:
            height, width = self._box()
            given = (
                "where the size differs, " if (height, width) == (self.height, self.width) else ""
            )
            scale = (
                f"both sides to {height}"
                if self.stretched
                else f"shorter side to {height}"
                if height == width
                else f"scaled to cover {height}x{width}"
            )
            crop = f"{self.height}x{self.width}{'' if self.height == self.width else ' (height x width)'}"
            told.append(f"{given}{scale}, up or down (bilinear, antialiased), central {crop}")
        if self.greyed:
            told.append("where there are colours, grey (0.299 R + 0.587 G + 0.114 B)")
        return "; ".join(told)

    def _box(self) -> tuple[int, int]:
        """What a picture must just cover before the crop: the size, scaled so that its shorter side is `resize`."""
        short = min(self.height, self.width)
        resize = self.resize or short
        return round(self.height * resize / short), round(self.width * resize / short)

    def central(self, picture: Image, where: str) -> np.ndarray:
        """The image of testing, uint8 [C, H, W]: resized, and its centre cut out."""
        from PIL.Image import Resampling

        if self.resize is None:
            return _array(picture)
        height, width = self._box()
        if self.stretched:
            pass
        elif width * picture.height >= height * picture.width:
            height = int(width * picture.height / picture.width)
        else:
            width = int(height * picture.width / picture.height)
        if width * height > MOST_PIXELS:
            raise DataError(
                f"{where}: a picture of {picture.width} x {picture.height} becomes one of {width} x {height} by this: "
                f"{self}. Cut out first what is to be certified"
            )
        left, top = round((width - self.width) / 2), round((height - self.height) / 2)
        resized = picture.resize((width, height), Resampling.BILINEAR)
        return _array(resized.crop((left, top, left + self.width, top + self.height)))

    def random(self, picture: Image, rng: np.random.Generator) -> np.ndarray:
        """An image for training, uint8 [C, H, W]: a random part of the picture, resized and maybe mirrored."""
        from PIL.Image import Resampling, Transpose

        left, top, width, height = random_part(*picture.size, rng)
        part = picture.crop((left, top, left + width, top + height))
        part = part.resize((self.width, self.height), Resampling.BILINEAR)
        return _array(part.transpose(Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part)


AS_PRINTED = Preparation(3, 224, 224, resize=256, stretched=True)
"""As the papers tell of ImageNet's test images: 256 x 256 whatever their shape, then the centre."""


def random_part(width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """(left, top, width, height) as torchvision's RandomResizedCrop: 8 to 100 % of the area, 3:4 to 4:3."""
    low, high = 3 / 4, 4 / 3
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        ratio = exp(rng.uniform(log(low), log(high)))
        w, h = round(sqrt(area * ratio)), round(sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1)), w, h
    # no part fitted, as in very long images: the largest central part of an allowed ratio
    w, h = min(width, round(height * high)), min(height, round(width / low))
    return (width - w) // 2, (height - h) // 2, w, h


def _array(picture: Image) -> np.ndarray:
    pixels = np.asarray(picture)
    return (
        pixels[None].copy() if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
    )
