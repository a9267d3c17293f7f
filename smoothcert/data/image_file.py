"""One image file as the array that a network of a given input shape takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import DataError, MissingExtra


def read_image(path: Path, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """[C, H, W] from a .npy array ([C, H, W], uint8 or floats in [0,1]) or a picture; never resized silently."""
    if not path.is_file():
        raise DataError(f"no image file at {path}")
    image = _read_array(path) if path.suffix == ".npy" else _read_picture(path, shape[0])
    if image.shape != shape:
        raise DataError(
            f"{path}: the model takes images of shape {list(shape)} [C, H, W], found {list(image.shape)}: "
            "crop or resize it first"
        )
    return image


def _read_array(path: Path) -> NDArray[np.generic]:
    try:
        array: NDArray[np.generic] = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is not a readable .npy array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is not a readable .npy array: it holds several arrays")
    return array


def check_depth(picture: Any, path: Path) -> None:
    """Refuse more than 8 bits per channel: Pillow would clip them without a warning, and give another picture."""
    stored = str(picture.tile[0][3]) if picture.tile else ""  # 16-bit RGB calls itself RGB, but is stored as RGB;16B
    if picture.mode in ("I", "F") or ";16" in picture.mode or ";16" in stored:
        raise DataError(
            f"{path}: expected a picture of 8 bits per channel, found more ({picture.mode}, stored as {stored}): "
            "convert it first, in the way that you mean it (16 to 8 bits by division by 257, for example)"
        )


def _read_picture(path: Path, channels: int) -> NDArray[np.uint8]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtra("pillow", "imagenet", f"reading {path.name}") from error
    try:
        with Image.open(path) as picture:
            if "A" in picture.getbands() or "transparency" in picture.info:
                raise DataError(
                    f"{path} has transparent pixels, whose colour is not defined: flatten the picture first"
                )
            check_depth(picture, path)
            pixels = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not a readable picture: {error}") from error
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
