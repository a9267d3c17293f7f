"""CIFAR-10 and CIFAR-100, in both forms that their author gives.

The binary version (.bin) has records of one or two label bytes and 3,072 pixel bytes. The Python version, which
torchvision downloads, has pickles of the same; they are read without running any code in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smoothcert.data.array_pickle import read_arrays
from smoothcert.errors import DataError

_PIXELS = 3 * 32 * 32

_CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100 = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
    can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
    lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
    pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
    seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
    telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman
    worm"""

CIFAR10_CLASSES, CIFAR100_CLASSES = tuple(_CIFAR10.split()), tuple(_CIFAR100.split())


def read_cifar10(paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 3, 32, 32] uint8 and labels [N] int64 of the files in turn."""
    return _read(paths, 1, "labels")


def read_cifar100(paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """As `read_cifar10`; of the two labels of an image (20 coarse, 100 fine classes) the fine one."""
    return _read(paths, 2, "fine_labels")


def _read(
    paths: Sequence[Path], label_bytes: int, labels_name: str
) -> tuple[np.ndarray, np.ndarray]:
    parts = [
        _binary(path, label_bytes) if path.suffix == ".bin" else _pickled(path, labels_name)
        for path in paths
    ]
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    return images, np.concatenate([labels for _, labels in parts])


def _binary(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(f"{path}: expected a readable CIFAR file: {error.strerror}") from error
    length = label_bytes + _PIXELS
    if len(data) == 0 or len(data) % length:
        raise DataError(
            f"{path}: expected a whole number of {length}-byte records, found {len(data)} bytes "
            f"({len(data) // length} records and {len(data) % length} bytes more): "
            "delete the file and get it again"
        )
    records = data.reshape(-1, length)
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def _pickled(path: Path, labels_name: str) -> tuple[np.ndarray, np.ndarray]:
    found = read_arrays(path)
    images, labels = found.get("data"), found.get(labels_name)
    if (
        not isinstance(images, np.ndarray)
        or images.dtype != np.uint8
        or images.shape[1:] != (_PIXELS,)
    ):
        what = f"{images.dtype} {list(images.shape)}" if isinstance(images, np.ndarray) else "none"
        raise DataError(
            f"{path}: expected an array data of type uint8 and shape ['N', {_PIXELS}], found {what}: "
            "delete the file and get it again"
        )
    if not (
        isinstance(labels, list)
        and len(labels) == len(images)
        and all(type(label) is int and 0 <= label < 256 for label in labels)
    ):
        what = f"{len(labels)} values" if isinstance(labels, list) else "none"
        raise DataError(
            f"{path}: expected a list {labels_name} of {len(images)} labels from 0 to 255, one per image, "
            f"found {what}: delete the file and get it again"
        )
    return images, np.array(labels, np.int64)
