"""A tree of image files with one folder per class, as ImageNet comes; images are decoded when asked for."""

from __future__ import annotations

import os
from functools import cached_property
from hashlib import sha256
from math import exp, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.data.image_file import open_picture
from smoothcert.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
_RESIZE, _CROP = 256, 224


class ImageFolder:
    """Like `Dataset`, but lazy: `<root>/<class>/.../<image>`.

    Classes are the sorted folder names and images the sorted file names, the order in which the field's
    certification logs number ImageNet.
    """

    shape = (3, _CROP, _CROP)
    eight_bit = True

    def __init__(self, root: Path, name: str = "imagenet", split: str = "test") -> None:
        self.root, self.name, self.split = Path(root), name, split
        if not self.root.is_dir():
            raise DataError(f"{root}: expected a folder with one sub-folder of images per class, found none")
        self.class_names = tuple(sorted(entry.name for entry in self.root.iterdir() if entry.is_dir()))
        if not self.class_names:
            raise DataError(f"{root}: expected one sub-folder of images per class, found no sub-folder")
        self.classes = len(self.class_names)
        files = [_images_below(self.root / name) for name in self.class_names]
        for class_name, found in zip(self.class_names, files, strict=True):
            if not found:
                raise DataError(
                    f"{self.root / class_name}: expected images ({', '.join(_SUFFIXES)}), found none: "
                    "remove the folder if it is not a class, since every class is numbered by its place"
                )
        self.files = [path for found in files for path in found]
        self.labels = np.repeat(np.arange(self.classes, dtype=np.int64), [len(found) for found in files])

    def __len__(self) -> int:
        return len(self.files)

    def image(self, i: int) -> np.ndarray:
        """Image `i` for testing, uint8 [3, 224, 224]: shorter side to 256, then the central 224 × 224."""
        image = self._decode(i)
        from PIL.Image import Resampling

        short = min(image.size)
        width, height = (_RESIZE if side == short else int(_RESIZE * side / short) for side in image.size)
        left, top = round((width - _CROP) / 2), round((height - _CROP) / 2)
        resized = image.resize((width, height), Resampling.BILINEAR)
        return _array(resized.crop((left, top, left + _CROP, top + _CROP)))

    def train_image(self, i: int, rng: np.random.Generator) -> np.ndarray:
        """Image `i` for training, uint8 [3, 224, 224]: a random part of it, resized and maybe mirrored."""
        image = self._decode(i)
        from PIL.Image import Resampling, Transpose

        left, top, width, height = random_part(*image.size, rng)
        part = image.crop((left, top, left + width, top + height))
        part = part.resize((_CROP, _CROP), Resampling.BILINEAR)
        return _array(part.transpose(Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part)

    def fingerprint(self) -> str:
        """SHA-256 of the sorted relative paths and file sizes; reading every pixel would take an hour."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        lines = sorted((path.relative_to(self.root).as_posix(), path.stat().st_size) for path in self.files)
        return sha256("\n".join(f"{name}\t{size}" for name, size in lines).encode()).hexdigest()

    def _decode(self, i: int) -> Image:
        """As the field's code reads ImageNet: EXIF orientation is passed over, and other colours become RGB."""
        with open_picture(self.files[i], f"reading images of {self.name}") as image:
            # a palette with transparency goes through RGBA, since Pillow warns of the single step
            palette = image.mode == "P" and "transparency" in image.info
            return (image.convert("RGBA") if palette else image).convert("RGB")


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


def _images_below(folder: Path) -> list[Path]:
    walk = sorted(os.walk(folder, followlinks=True))
    files = [Path(base, name) for base, _, names in walk for name in sorted(names)]
    return [path for path in files if path.suffix.lower() in _SUFFIXES]


def _array(image: Image) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))
