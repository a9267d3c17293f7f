"""Pseudo-labelled images for self-training, such as the 500K tiny images of Carmon et al. (arXiv:1905.13736)."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from smoothcert.config import SelfTraining
from smoothcert.data.array_pickle import read_array_pickle
from smoothcert.data.dataset import Dataset
from smoothcert.data.lazy import LazyDataset, require_labels
from smoothcert.errors import DataError

NAMES = ("data", "extrapolated_targets")


def load_pseudo_labelled(
    wanted: SelfTraining | None, train: Dataset | LazyDataset, least: int
) -> Dataset | None:
    """The images that a configuration's `self_training` names, if it does; at least `least` of them."""
    return None if wanted is None else read_pseudo_labelled(Path(wanted.path), train, least)


def read_pseudo_labelled(path: Path, train: Dataset | LazyDataset, least: int = 1) -> Dataset:
    """At least `least` images like those of `train`, with labels of its classes.

    The file is a pickle (read without running code) or an .npz file of two arrays: `data`, uint8
    [N, H, W, C], and `extrapolated_targets`, [N] integers. Images are never resized.
    """
    images, labels = _arrays(path)
    channels, height, width = train.shape
    if images.dtype != np.uint8 or images.shape[1:] != (height, width, channels):
        raise DataError(
            f"{path}: expected data of type uint8 and shape {['N', height, width, channels]}, as the images of "
            f"{train.name} have, found {images.dtype} {list(images.shape)}"
        )
    if labels.dtype.kind not in "iu" or labels.shape != (len(images),):
        raise DataError(
            f"{path}: expected extrapolated_targets to be {len(images)} integers, one per image, "
            f"found {labels.dtype} {list(labels.shape)}"
        )
    if len(images) < least:
        raise DataError(
            f"{path}: expected at least a whole batch of {least} pseudo-labelled images, found {len(images)}: "
            "give more, or a smaller batch_size"
        )
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    found = Dataset(str(path), "pseudo-labelled", planes, labels.astype(np.int64), train.classes)
    require_labels(found, "self-training")
    return found


def _arrays(path: Path) -> list[np.ndarray]:
    try:
        with path.open("rb") as file:
            if file.read(2) != b"PK":  # no zip file, which .npz is
                return read_array_pickle(path, NAMES)
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return [arrays[name] for name in NAMES]
    except OSError as error:
        raise DataError(
            f"{path}: expected a readable file of pseudo-labelled images: {error.strerror}"
        ) from error
    except (ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: expected an .npz file of the arrays {' and '.join(NAMES)} ({error}): write it again"
        ) from error
