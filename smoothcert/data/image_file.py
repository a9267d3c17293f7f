"""Image files: pictures opened with every error naming its file, and one as the array that a network takes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import DataError, MissingExtra, SmoothcertError

if TYPE_CHECKING:
    from PIL.Image import Image

    from smoothcert.data.preparation import Preparation

_PLAIN = ("1", "L", "P", "RGB")  # modes in which a pixel has one colour, whoever reads the file
MOST_PIXELS = 100_000_000
"""A few kilobytes can call themselves a picture of gigabytes. No camera gives more than this."""


def read_image(path: Path, rule: Preparation) -> NDArray[np.generic]:
    """[C, H, W] from a .npy array ([C, H, W], uint8 or floats in [0,1]), or from a picture by a rule.

    A picture is turned as its EXIF orientation says. Its size is known before it is decoded, and one that the rule does
    not take is refused then. Transparent and animated pictures are refused, and colours such as CMYK.
    """
    if not path.is_file():
        raise DataError(f"no image file at {path}")
    return _read_array(path, rule.shape) if path.suffix == ".npy" else _read_picture(path, rule)


def _check_shape(path: Path, shape: tuple[int, ...], found: tuple[int, ...]) -> None:
    if found != shape:
        raise DataError(
            f"{path}: the model takes images of shape {list(shape)} [C, H, W], found {list(found)}: "
            "crop or resize it first"
        )


def _read_array(path: Path, shape: tuple[int, ...]) -> NDArray[np.generic]:
    try:
        array: NDArray[np.generic] = np.load(
            path, mmap_mode="r", allow_pickle=False
        )  # mapped: the shape comes first
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is not a readable .npy array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is not a readable .npy array: it holds several arrays")
    _check_shape(path, shape, array.shape)
    return np.array(array)


@contextmanager
def open_picture(
    path: Path | str, needed_for: str, content: bytes | None = None
) -> Iterator[Image]:
    """A picture of 8 bits per channel and one frame, not decoded yet. What goes wrong within names the file.

    With `content` the file is not read: `path` says where these bytes come from.
    """
    try:
        import PIL.Image
    except ImportError as error:
        raise MissingExtra("pillow", "pictures", needed_for) from error
    try:
        with PIL.Image.open(path if content is None else BytesIO(content)) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise _too_large(path, f"{picture.width} x {picture.height}")
            _check_depth(picture, path)
            if (
                getattr(picture, "is_animated", False) and picture.format != "MPO"
            ):  # a JPEG with a preview of itself
                raise DataError(
                    f"{path}: expected one picture, found {getattr(picture, 'n_frames', 2)} frames: save the one you "
                    "mean as a file of its own"
                )
            yield picture
    except SmoothcertError:
        raise
    except PIL.Image.DecompressionBombError as error:
        raise _too_large(path, str(error)) from error
    except Exception as error:  # Pillow raises nearly anything on a damaged file
        reason = "of no known format" if isinstance(error, PIL.UnidentifiedImageError) else error
        raise DataError(
            f"{path}: expected a readable picture, found a damaged one or none ({reason}): get it again"
        ) from error


def _too_large(path: Path | str, found: str) -> DataError:
    return DataError(
        f"{path}: expected at most {MOST_PIXELS // 10**6} million pixels, found {found}: make it smaller"
    )


def _check_depth(picture: Any, path: Path | str) -> None:
    """Refuse more than 8 bits per channel: Pillow would clip them without a warning, and give another picture."""
    # 16-bit RGB calls itself RGB, but is stored as RGB;16B
    stored = str(picture.tile[0][3]) if picture.tile else ""
    if picture.mode in ("I", "F") or ";16" in picture.mode or ";16" in stored:
        raise DataError(
            f"{path}: expected a picture of 8 bits per channel, found more ({picture.mode}, stored as {stored}): "
            "convert it first, in the way that you mean it (16 to 8 bits by division by 257, for example)"
        )


def check_colours(picture: Image, path: Path | str) -> None:
    """Refuse a picture whose pixels have no colour that all programs agree on."""
    if picture.mode.endswith(("A", "a")) or "transparency" in picture.info:
        raise DataError(
            f"{path} has transparent pixels, whose colour is not defined: flatten the picture first"
        )
    if picture.mode not in _PLAIN:
        raise DataError(
            f"{path}: expected a grey or RGB picture, found {picture.mode}, which programs convert in different "
            "ways: convert it first"
        )


def upright(picture: Image, channels: int) -> Image:
    """The picture decoded, turned as its EXIF orientation says, grey for one channel and else RGB."""
    from PIL.ImageOps import exif_transpose

    return exif_transpose(picture).convert("L" if channels == 1 else "RGB")


def _read_picture(path: Path, rule: Preparation) -> NDArray[np.uint8]:
    with (
        warnings.catch_warnings(action="ignore"),
        open_picture(path, f"reading {path.name}") as picture,
    ):
        check_colours(picture, path)
        # it may be turned yet, by what is known when it is decoded
        if rule.resize is None and sorted(picture.size) != sorted((rule.width, rule.height)):
            _check_shape(path, rule.shape, (rule.channels, picture.height, picture.width))
        pixels = rule.central(upright(picture, rule.channels), str(path))
    _check_shape(path, rule.shape, pixels.shape)
    return pixels
