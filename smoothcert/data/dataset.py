"""A data set in memory: images as stored, labels, and a fingerprint that names exactly these bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.errors import DataError

if TYPE_CHECKING:
    import torch


UNLABELLED = -1
"""The label of every image of a set without labels: such a set has certificates, but no accuracy."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with labels, or all without. The certificate of image `i` is about `image(i)`, scaled to [0, 1].

    >>> import numpy as np
    >>> from smoothcert import Dataset
    >>> images, labels = np.zeros((4, 3, 32, 32), np.uint8), np.array([0, 1, 1, 0])
    >>> Dataset("mine", "test", images, labels, classes=2).shape
    (3, 32, 32)
    """

    name: str
    split: str
    images: (
        np.ndarray
    )  # [N, C, H, W], uint8 in 0..255, or float32 in [0, 1] for data off the 8-bit grid
    labels: np.ndarray  # [N] int64; all UNLABELLED where there are none
    classes: int  # of the network that the set is for; 0 where labels do not say it
    class_names: tuple[str, ...] = ()
    licence: str = ""  # in words; empty where it is not known
    preparation: str = ""  # what was done to the images as they were found; empty for nothing

    def __post_init__(self) -> None:
        where = f"data set {self.name} ({self.split})"
        images, labels = self.images, self.labels
        if images.dtype not in (np.uint8, np.float32):
            raise DataError(
                f"{where}: expected images of type uint8 (0..255) or float32 (in [0, 1]), "
                f"found {images.dtype}: convert them with .astype"
            )
        if images.ndim != 4:
            raise DataError(
                f"{where}: expected images of shape [N, C, H, W], found {list(images.shape)}"
            )
        if labels.dtype != np.int64 or labels.ndim != 1:
            raise DataError(
                f"{where}: expected labels of type int64 and shape [N], "
                f"found {labels.dtype} {list(labels.shape)}: convert them with .astype(np.int64)"
            )
        if len(images) != len(labels):
            raise DataError(
                f"{where}: expected one label per image, found {len(images)} and {len(labels)}"
            )
        if images.size == 0:
            raise DataError(
                f"{where}: expected at least one image, found shape {list(images.shape)}"
            )
        if len(self.class_names) not in (0, self.classes):
            raise DataError(
                f"{where}: expected {self.classes} class names or none, found {len(self.class_names)}"
            )
        check_labels(where, labels, self.classes)
        if not self.eight_bit:
            _require_unit_range(where, images)

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, i: int) -> np.ndarray:
        """Image `i` as stored, [C, H, W]."""
        found: np.ndarray = self.images[i]
        return found

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of every image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def labelled(self) -> bool:
        """Whether the images have labels: all have one, or none has."""
        return bool(self.labels[0] != UNLABELLED)

    @property
    def eight_bit(self) -> bool:
        """Whether every pixel is one of the 256 values k/255."""
        return bool(self.images.dtype == np.uint8)

    def fingerprint(self) -> str:
        """SHA-256 of the type, the shape, the pixels and the labels."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = sha256(f"{self.images.dtype} {self.images.shape}".encode())
        digest.update(np.ascontiguousarray(self.images).data)
        digest.update(np.ascontiguousarray(self.labels).data)
        return digest.hexdigest()


def check_labels(where: str, labels: np.ndarray, classes: int) -> None:
    """All of them are classes, or all are UNLABELLED."""
    if len(labels) and (labels == UNLABELLED).all():
        return
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        found, hint = (
            labels[wrong[0]],
            ", or give no label at all" if labels[wrong[0]] == UNLABELLED else "",
        )
        raise DataError(
            f"{where}: expected labels from 0 to {classes - 1}, found {found} for image {wrong[0]}: "
            f"check `classes` and the label file{hint}"
        )


def _require_unit_range(where: str, images: np.ndarray) -> None:
    for start, part in _parts(images):
        wrong = np.argwhere(~((part >= 0) & (part <= 1)))  # NaN too
        if len(wrong):
            i, value = start + wrong[0][0], part[tuple(wrong[0])]
            raise DataError(
                f"{where}: expected pixels in [0, 1], found {value} in image {i}: divide 8-bit "
                "values by 255, or store them as uint8"
            )


def _parts(images: np.ndarray, size: int = 1024) -> Iterator[tuple[int, np.ndarray]]:
    """A few images at a time with their first position, so that no temporary is as large as the set."""
    return ((start, images[start : start + size]) for start in range(0, len(images), size))


def from_torch(
    dataset: torch.utils.data.Dataset[Any], name: str, classes: int, split: str = "test"
) -> Dataset:
    """Copy a torch data set of (image, label) pairs, or of images alone, into memory.

    An image is a tensor [C, H, W], floating point in [0, 1] or uint8. Float images that all lie on the 8-bit
    grid k/255, as those of torchvision's ToTensor do, are stored as uint8: exact, and a quarter of the size.

    >>> import torch
    >>> from smoothcert import from_torch
    >>> pairs = torch.utils.data.TensorDataset(torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 1, 0]))
    >>> len(from_torch(pairs, "mine", classes=2))
    4
    """
    where = f"data set {name} ({split})"
    try:
        size = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise DataError(
            f"{where}: expected a data set with a length, found {type(dataset)}"
        ) from None
    if size == 0:
        raise DataError(f"{where}: expected at least one image, found none")
    labels = np.empty(size, np.int64)
    first = _pixels(where, 0, dataset[0])[0]
    images = np.empty((size, *first.shape), first.dtype)
    for i in range(size):
        image, labels[i] = _pixels(where, i, dataset[i])
        if (image.shape, image.dtype) != (first.shape, first.dtype):
            raise DataError(
                f"{where}: expected all images alike, found {image.dtype} {list(image.shape)} at item {i} "
                f"and {first.dtype} {list(first.shape)} at item 0: resize or convert them in the transform"
            )
        images[i] = image
    return Dataset(name, split, on_grid(where, images), labels, classes)


def on_grid(where: str, images: np.ndarray) -> np.ndarray:
    """Float images in [0, 1] as uint8 if all lie on the grid k/255, to the rounding of float32; others as they are."""
    if images.dtype == np.float32:
        _require_unit_range(where, images)
        if all(np.abs(255 * part - np.rint(255 * part)).max() < 1e-3 for _, part in _parts(images)):
            return np.concatenate(
                [np.rint(255 * part).astype(np.uint8) for _, part in _parts(images)]
            )
    return images


def _pixels(where: str, i: int, item: Any) -> tuple[np.ndarray, int]:
    """The image of one item as uint8 or float32 [C, H, W], and its label."""
    import torch

    if isinstance(item, torch.Tensor) or (isinstance(item, tuple | list) and len(item) == 1):
        # TensorDataset gives tuples of one
        item = item if isinstance(item, torch.Tensor) else item[0], UNLABELLED
    if not (isinstance(item, tuple | list) and len(item) == 2):
        raise DataError(
            f"{where}: expected (image, label) pairs or images, found {type(item).__name__} at item {i}"
        )
    image, label = item
    if not isinstance(image, torch.Tensor):
        raise DataError(
            f"{where}: expected image tensors, found {type(image).__name__} at item {i}: "
            "add transform=torchvision.transforms.ToTensor() to the data set"
        )
    if image.ndim != 3 or not (image.is_floating_point() or image.dtype == torch.uint8):
        raise DataError(
            f"{where}: expected images of shape [C, H, W], floating point or uint8, "
            f"found {image.dtype} {list(image.shape)} at item {i}"
        )
    if isinstance(label, torch.Tensor | np.ndarray) and label.ndim == 0:
        label = label.item()
    if not isinstance(label, Integral) or isinstance(label, bool):
        raise DataError(
            f"{where}: expected integer labels, found {label!r} ({type(label).__name__}) at item {i}: "
            "add a target_transform that returns the class number"
        )
    pixels = image.detach().cpu()
    return (pixels if pixels.dtype == torch.uint8 else pixels.float()).numpy(), int(label)
