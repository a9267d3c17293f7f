"""The binary version of CIFAR-10 and CIFAR-100: records of one or two label bytes and 3,072 pixel bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

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
    return _read(paths, label_bytes=1)


def read_cifar100(paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """As `read_cifar10`; of the two labels of a record (20 coarse, 100 fine classes) the fine one."""
    return _read(paths, label_bytes=2)


def _read(paths: Sequence[Path], label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    records = np.concatenate([_records(path, label_bytes + _PIXELS) for path in paths])
    labels = records[:, label_bytes - 1].astype(np.int64)
    return np.ascontiguousarray(records[:, label_bytes:]).reshape(-1, 3, 32, 32), labels


def _records(path: Path, length: int) -> np.ndarray:
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(f"{path}: expected a readable CIFAR file: {error.strerror}") from error
    if len(data) == 0 or len(data) % length:
        raise DataError(
            f"{path}: expected a whole number of {length}-byte records, found {len(data)} bytes "
            f"({len(data) // length} records and {len(data) % length} bytes more): "
            "delete the file and get it again"
        )
    return data.reshape(-1, length)
