"""The images that may be certified: bad input must never yield a certificate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.errors import DataError

Image = Tensor | NDArray[np.generic]


def check_images(images: Sequence[Image], indices: Sequence[int]) -> list[Tensor]:
    """Images of one shape with an index for each; an error for anything else."""
    if len(images) != len(indices) or len(images) == 0:
        raise DataError(
            f"expected an index for each of at least one image, found {len(images)} and {len(indices)}"
        )
    xs = [check_image(image) for image in images]
    if len({x.shape for x in xs}) > 1:
        raise DataError(
            f"expected images of one shape, found {sorted({tuple(x.shape) for x in xs})}"
        )
    return xs


def check_image(image: Image) -> Tensor:
    """The image as a tensor [C, H, W], uint8 or floats in [0,1]; an error for anything else."""
    try:
        # a copy: it may be read-only
        x = image if isinstance(image, Tensor) else torch.from_numpy(np.array(image))
    except (TypeError, ValueError) as error:  # ragged lists have no shape
        raise DataError(
            f"expected an image of uint8 (0..255) or floats in [0,1], found {type(image)}"
        ) from error
    if x.ndim != 3 or not x.numel():
        raise DataError(
            f"expected one image of shape [C, H, W], found shape {list(x.shape)}: pass images one by one"
        )
    if x.dtype == torch.uint8:
        return x
    if not x.is_floating_point():
        raise DataError(f"expected an image of uint8 (0..255) or floats in [0,1], found {x.dtype}")
    if not bool(x.isfinite().all()):
        raise DataError("the image has NaN or infinite pixels: clean it before certification")
    low, high = float(x.min()), float(x.max())
    if low < 0.0 or high > 1.0:
        raise DataError(
            f"expected pixels in [0,1], found {low:g} to {high:g}: divide 8-bit values by 255, and put any "
            "normalisation inside the model, since sigma and radii are in units of the [0,1] image"
        )
    return x
