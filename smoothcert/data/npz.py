"""`npz:PATH`: images and labels as NumPy arrays, in one file or in one per split."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from smoothcert.data.dataset import UNLABELLED, Dataset, on_grid
from smoothcert.data.places import SPLITS, find, licence_below, named_split
from smoothcert.data.specs import Spec
from smoothcert.errors import DataError

_NAMES = (("{}_images", "{}_labels"), ("x_{}", "y_{}"), ("images", "labels"), ("x", "y"))
"""Names of the two arrays, with the split in them or without."""


def load_npz(
    spec: Spec,
    split: str,
    data_dir: Path | None,
    shape: tuple[int, int, int] | None,
    classes: int | None,
) -> Dataset:
    """Images [N, H, W], [N, H, W, C] or [N, C, H, W], uint8 or floats in [0, 1]; labels [N] may be missing."""
    place = path = find(spec.place, data_dir)
    if place.is_dir():
        below = named_split([file.stem for file in sorted(place.glob("*.npz"))], split, str(place))
        if below is None:
            raise DataError(
                f"{place}: expected {' or '.join(f'{name}.npz' for name in SPLITS[split])}, found none"
            )
        path = place / f"{below}.npz"
    try:
        with path.open("rb") as raw:  # NumPy would leave a damaged file open
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise DataError(
                    f"{path}: expected an .npz file, found a single array: save it by numpy.savez"
                )
            images_name, labels_name = _names(path, file.files, split)
            images = file[images_name]
            labels = file[labels_name] if labels_name in file.files else None
            names = file["class_names"] if "class_names" in file.files else np.array([], str)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: expected a whole .npz file of plain arrays ({error})") from error
    images = _images(f"{path}, array {images_name}", images, shape)
    values = (
        np.full(len(images), UNLABELLED, np.int64)
        if labels is None
        else _labels(f"{path}, array {labels_name}", labels)
    )
    class_names = (
        tuple(map(str, names.tolist())) if names.ndim == 1 and names.dtype.kind == "U" else ()
    )
    count = classes or len(class_names) or max(int(values.max(initial=-1)) + 1, 0)
    if len(class_names) not in (0, count):
        raise DataError(
            f"{path}: expected {count} class_names, one for each class of the network, found {len(class_names)}"
        )
    return Dataset(
        spec.name(place), split, images, values, count, class_names, licence_below(path.parent)
    )


def _names(path: Path, there: list[str], split: str) -> tuple[str, str]:
    """The arrays of a split; a file without splits in its names has one set, for all of them."""
    for images, labels in _NAMES:
        splits = [
            name for names in SPLITS.values() for name in names if images.format(name) in there
        ]
        if found := named_split(splits, split, str(path)):
            return images.format(found), labels.format(found)
    wanted = ", ".join(images.format(split) for images, _ in _NAMES)
    raise DataError(
        f"{path}: expected images in an array {wanted}, found {', '.join(there) or 'no array'}"
    )


def _images(where: str, found: np.ndarray, shape: tuple[int, int, int] | None) -> np.ndarray:
    if found.dtype != np.uint8 and found.dtype.kind != "f":
        raise DataError(
            f"{where}: expected uint8 (0 to 255) or floats in [0, 1], found {found.dtype}: convert them"
        )
    images = found if found.dtype == np.uint8 else found.astype(np.float32)
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4:
        images = _channels_first(where, images, shape)
    else:
        raise DataError(
            f"{where}: expected shape [N, H, W], [N, H, W, C] or [N, C, H, W], found {list(images.shape)}"
        )
    return on_grid(where, images)


def _channels_first(
    where: str, images: np.ndarray, shape: tuple[int, int, int] | None
) -> np.ndarray:
    """By the axis of 1 or 3 channels; if both may be it, by the shape that the network takes."""
    as_it_is, turned = images.shape[1:], (images.shape[3], *images.shape[1:3])
    first, last = as_it_is[0] in (1, 3), turned[0] in (1, 3)
    if first and last and shape is not None:
        first, last = as_it_is == shape, turned == shape
    if first == last:
        raise DataError(
            f"{where}: expected 1 or 3 channels, first or last, found shape {list(images.shape)}"
        )
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if last else images


def _labels(where: str, found: np.ndarray) -> np.ndarray:
    # as keras has those of CIFAR
    labels = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{where}: expected one class number per image, found {found.dtype} {list(found.shape)}"
        )
    if (
        labels.size and int(labels.max()) >= 2**31
    ):  # a larger one could become negative, which is no label
        raise DataError(f"{where}: expected class numbers, found {labels.max()}")
    return labels.astype(np.int64)
