"""Like `Dataset`, but pictures are decoded when they are asked for."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from smoothcert.data.dataset import UNLABELLED, Dataset, check_labels
from smoothcert.data.image_file import check_colours, upright
from smoothcert.data.preparation import Preparation
from smoothcert.data.specs import Spec, prepare
from smoothcert.errors import DataError
from smoothcert.progress import ProgressBar

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
R = TypeVar("R")
# the EXIF tag, and those of its values that swap width and height
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)


class LazyDataset(ABC):
    """Pictures somewhere, with labels or all without, and the rule by which they become images of one shape."""

    eight_bit = True
    licence = ""
    name: str
    split: str
    labels: np.ndarray  # [N] int64; all UNLABELLED where there are none
    classes: int  # of the network that the set is for; 0 where labels do not say it
    class_names: tuple[str, ...]
    by_name: bool = False  # whether labels were numbered by the names of the network's classes
    rule: Preparation

    @abstractmethod
    def where(self, i: int) -> str:
        """The name of picture `i` in messages."""

    @abstractmethod
    def open(self, i: int) -> AbstractContextManager[Image]:
        """Picture `i`, not decoded yet, by `open_picture`."""

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 that names these images and labels."""

    @abstractmethod
    def part(self, indices: Sequence[int]) -> LazyDataset:
        """These pictures as a set of their own: what a process needs that decodes them, and cheap to send there."""

    def prepare(self, spec: Spec, place: Path | str, shape: tuple[int, int, int] | None) -> None:
        """Decide by the first picture how all become images, and what the set is called with that."""
        with self.open(0) as picture:
            check_colours(picture, self.where(0))
            first = 1 if picture.mode in ("1", "L") else 3, *upright_size(picture)
        self.rule, shown = prepare(spec, shape, first)
        self.name = spec.name(place, shown)

    def _part(self, indices: Sequence[int]) -> Self:
        """For `part`: a copy with labels of these pictures, and without what decoding does not need."""
        some = copy(self)
        some.labels, some.class_names = self.labels[list(indices)], ()
        vars(some).pop("_fingerprint", None)
        return some

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of every image."""
        return self.rule.shape

    @property
    def labelled(self) -> bool:
        """Whether the pictures have labels: all have one, or none has."""
        return bool(self.labels[0] != UNLABELLED)

    @property
    def preparation(self) -> str:
        """In words what is done to the pictures; empty for nothing."""
        return str(self.rule)

    def image(self, i: int) -> np.ndarray:
        """Image `i` for testing, uint8 [C, H, W]."""
        return self.rule.central(self.decode(i), self.where(i))

    def train_image(self, i: int, rng: np.random.Generator) -> np.ndarray:
        """Image `i` for training, uint8 [C, H, W]: a random part of it, resized and maybe mirrored."""
        return self.rule.random(self.decode(i), rng)

    def decode(self, i: int) -> Image:
        """Picture `i` in grey or RGB, turned as its EXIF orientation says."""
        with self.open(i) as picture:
            self._check(picture, i)
            found = upright(picture, self.rule.channels)
            self._check_size(found, i)
            return found

    def check(self, i: int) -> None:
        """Refuse picture `i` by what its header says: quick, but damage further on is not seen."""
        with self.open(i) as picture:
            self._check(picture, i)

    def _check(self, picture: Image, i: int) -> None:
        where, rule = self.where(i), self.rule
        check_colours(picture, where)
        if rule.channels == 1 and not rule.greyed and picture.mode not in ("1", "L"):
            raise DataError(
                f"{where}: expected a grey picture, as the first one, found colours: ask for grey or colour"
            )
        if sorted(picture.size) != sorted((rule.width, rule.height)):  # it may be turned yet
            self._check_size(picture, i)

    def _check_size(self, picture: Image, i: int) -> None:
        rule = self.rule
        if rule.resize is None and (picture.height, picture.width) != (rule.height, rule.width):
            raise DataError(
                f"{self.where(i)}: expected a picture of {rule.height} x {rule.width} pixels (height x width), as the "
                f"first one, found {picture.height} x {picture.width}: give a size to bring all pictures to, such as "
                f"size={rule.width}"
            )


def upright_size(picture: Image) -> tuple[int, int]:
    """Height and width, turned as the EXIF orientation says; PNG files are decoded to know it."""
    turned = picture.getexif().get(_ORIENTATION) in _TURNED
    return (picture.width, picture.height) if turned else (picture.height, picture.width)


def require_labels(dataset: Dataset | LazyDataset, purpose: str) -> None:
    """Refuse a set without labels."""
    if not dataset.labelled:
        raise DataError(
            f"{dataset.name} ({dataset.split}) has no labels, and {purpose} needs them: sort the "
            "pictures into a folder for each class, or write them into labels.csv (columns file,label)"
        )


def require_alike(train: Dataset | LazyDataset, test: Dataset | LazyDataset) -> None:
    """Refuse test images of other classes or of another shape than those of training."""
    for what in ("shape", "classes", "class_names"):
        there, expected = getattr(test, what), getattr(train, what)
        if there and expected and there != expected:  # not all sets have class names
            raise DataError(
                f"{test.name} ({test.split}): expected the {what.replace('_', ' ')} of the training images, "
                f"{expected}, found {there}: lay out both alike, bring pictures to one size (size=32), or measure "
                "nothing on the way (evaluate_every 0)"
            )


def with_classes(dataset: Dataset | LazyDataset, classes: int) -> Dataset | LazyDataset:
    """The same set for a network of so many classes, if its labels may be among these."""
    if dataset.classes == classes:
        return dataset
    where = f"{dataset.name} ({dataset.split})"
    if dataset.class_names:
        raise DataError(
            f"{where} has {len(dataset.class_names)} classes, the network {classes}: they do not belong together, "
            "unless labels are left out or given by the network's class numbers"
        )
    check_labels(where, dataset.labels, classes)
    if isinstance(dataset, Dataset):
        return replace(dataset, classes=classes)
    same = copy(dataset)
    same.classes = classes
    return same


def faults(dataset: Dataset | LazyDataset, limit: int = 20) -> list[str]:
    """What is wrong with the pictures of a set, by their headers alone: at most `limit` sentences, each with its file.

    Only headers are read, so it is quick. Arrays in memory were checked when they were read.
    """
    if isinstance(dataset, Dataset):
        return []

    def fault(i: int) -> str:
        try:
            dataset.check(i)
        except DataError as error:
            return str(error)
        return ""

    found = each(fault, range(len(dataset)), f"check {dataset.name}", "pictures", many=5_000)
    return list(islice(filter(None, found), limit))


def each(
    work: Callable[[T], R], items: Sequence[T], title: str, unit: str, many: int
) -> Iterator[R]:
    """`work` on each by a few threads, since mostly it waits for the disk; so many deserve a progress bar."""
    with (
        ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool,
        ProgressBar(title, len(items), unit, quiet=len(items) < many) as bar,
    ):
        for found in pool.map(work, items):
            bar.advance()
            yield found
