"""A tree of image files with one folder per class, as ImageNet comes; images are decoded when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.data.image_file import open_picture
from smoothcert.data.lazy import LazyDataset
from smoothcert.data.preparation import Preparation
from smoothcert.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class AsPublished(LazyDataset):
    """Pictures prepared as the field's code prepares those of ImageNet: published certificates are about that."""

    rule = Preparation(3, 224, 224, resize=256)

    def _hash(self, lines: Iterable[str]) -> str:
        """Of lines about the files, and of the preparation where it is another."""
        other = [] if self.rule == AsPublished.rule else [str(self.rule)]
        return sha256("\n".join([*lines, *other]).encode()).hexdigest()

    def decode(self, i: int) -> Image:
        """EXIF orientation is passed over, and other colours become RGB."""
        with self.open(i) as image:
            # a palette with transparency goes through RGBA, since Pillow warns of the single step
            palette = image.mode == "P" and "transparency" in image.info
            return (image.convert("RGBA") if palette else image).convert("RGB")

    def _check(self, picture: Image, i: int) -> None:
        """Every size and colour is taken."""


class ImageFolder(AsPublished):
    """`<root>/<class>/.../<image>`, prepared and named as the field does it.

    Classes are the sorted folder names and images the sorted file names, the order in which the field's
    certification logs number ImageNet. `PictureFolder` is for other folders of pictures.
    """

    def __init__(
        self, root: Path, name: str = "imagenet", split: str = "test", licence: str = ""
    ) -> None:
        self.root, self.name, self.split, self.licence = Path(root), name, split, licence
        if not self.root.is_dir():
            raise DataError(
                f"{root}: expected a folder with one sub-folder of images per class, found none"
            )
        self.class_names = tuple(
            sorted(entry.name for entry in self.root.iterdir() if entry.is_dir())
        )
        if not self.class_names:
            raise DataError(
                f"{root}: expected one sub-folder of images per class, found no sub-folder"
            )
        self.classes = len(self.class_names)
        files = [_images_below(self.root / name) for name in self.class_names]
        for class_name, found in zip(self.class_names, files, strict=True):
            if not found:
                raise DataError(
                    f"{self.root / class_name}: expected images ({', '.join(SUFFIXES)}), found none: "
                    "remove the folder if it is not a class, since every class is numbered by its place"
                )
        self.files = [path for found in files for path in found]
        self.labels = np.repeat(
            np.arange(self.classes, dtype=np.int64), [len(found) for found in files]
        )

    def where(self, i: int) -> str:
        return str(self.files[i])

    def open(self, i: int) -> AbstractContextManager[Image]:
        return open_picture(self.files[i], f"reading images of {self.name}")

    def part(self, indices: Sequence[int]) -> ImageFolder:
        some = self._part(indices)
        some.files = [self.files[i] for i in indices]
        return some

    def fingerprint(self) -> str:
        """SHA-256 of the sorted relative paths and file sizes; reading every pixel would take an hour."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        lines = sorted(
            (path.relative_to(self.root).as_posix(), path.stat().st_size) for path in self.files
        )
        return self._hash(f"{name}\t{size}" for name, size in lines)


def _images_below(folder: Path) -> list[Path]:
    walk = sorted(os.walk(folder, followlinks=True))
    files = [Path(base, name) for base, _, names in walk for name in sorted(names)]
    return [path for path in files if path.suffix.lower() in SUFFIXES]
