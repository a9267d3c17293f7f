"""ImageNet at 32x32 pixels (Chrabaszcz et al., arXiv:1707.08819), in its .npz form, which cannot run code."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smoothcert.errors import DataError

_PIXELS = 3 * 32 * 32


def read_imagenet32(paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 3, 32, 32] uint8 and labels [N] int64 from 0; the files count the 1,000 classes from 1."""
    parts = [_read(path) for path in paths]
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    return images, np.concatenate([labels for _, labels in parts]) - 1


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            images, labels = arrays["data"], arrays["labels"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: expected the arrays data and labels of an .npz file ({error}): "
            "get the npz form of ImageNet32 again"
        ) from error
    if images.dtype != np.uint8 or images.shape != (len(labels), _PIXELS):
        raise DataError(
            f"{path}: expected uint8 images of shape {[len(labels), _PIXELS]}, one per label, "
            f"found {images.dtype} {list(images.shape)}: is it another file under this name?"
        )
    return images, labels.astype(np.int64)
