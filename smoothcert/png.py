"""Small images as PNG data URIs, with zlib alone."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import DataError

Pixels = NDArray[np.uint8]


def data_uri(image: NDArray[np.generic], largest: int = 64) -> str:
    """An image [C, H, W], uint8 or in [0, 1], as `data:image/png;base64,...`; larger ones are averaged down."""
    return (
        "data:image/png;base64," + b64encode(encode_png(shrink(as_bytes(image), largest))).decode()
    )


def encode_png(pixels: Pixels) -> bytes:
    """PNG of uint8 [1, H, W] (grey) or [3, H, W] (RGB); of three row filters the one that packs best."""
    channels, height, width = pixels.shape
    rows = np.ascontiguousarray(pixels.transpose(1, 2, 0)).reshape(height, width * channels)
    left = np.concatenate([np.zeros((height, channels), np.uint8), rows[:, :-channels]], axis=1)
    above = np.concatenate([np.zeros((1, rows.shape[1]), np.uint8), rows[:-1]])
    filtered = ((0, rows), (1, rows - left), (2, rows - above))  # modulo 256, as PNG defines it
    packed = [
        zlib.compress(np.insert(data, 0, kind, axis=1).astype(np.uint8).tobytes(), 9)
        for kind, data in filtered
    ]
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", min(packed, key=len)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


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
