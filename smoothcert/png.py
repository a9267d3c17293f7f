"""Small images as PNG data URIs."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import DataError

Pixels = NDArray[np.uint8]


def data_uri(image: NDArray[np.generic], largest: int = 64) -> str:
    """An image [C, H, W], uint8 or in [0, 1], as `data:image/png;base64,...`; larger ones are averaged down."""
    from PIL import Image

    pixels = shrink(as_bytes(image), largest)
    file = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(
        file, "png", optimize=True
    )
    return "data:image/png;base64," + b64encode(file.getvalue()).decode()


def as_bytes(image: NDArray[np.generic]) -> Pixels:
    array: NDArray[Any] = np.asarray(image)
    if array.ndim != 3 or array.shape[0] not in (1, 3) or 0 in array.shape:
        raise DataError(f"expected an image of shape [1 or 3, H, W], found {list(array.shape)}")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise DataError(
            f"expected an image of type uint8, or floating point in [0, 1], found {array.dtype}"
        )
    pixels: Pixels = np.rint(255 * np.clip(array, 0, 1)).astype(np.uint8)
    return pixels


def shrink(pixels: Pixels, largest: int) -> Pixels:
    """Average blocks of k x k pixels, with the smallest k that makes both sides at most `largest`."""
    channels, height, width = pixels.shape
    k = -(-max(height, width) // largest)
    if k == 1:
        return pixels
    h, w = max(height // k, 1), max(width // k, 1)
    k_h, k_w = min(k, height), min(k, width)
    blocks = pixels[:, : h * k_h, : w * k_w].reshape(channels, h, k_h, w, k_w)
    small: Pixels = np.rint(blocks.mean(axis=(2, 4))).astype(np.uint8)
    return small
