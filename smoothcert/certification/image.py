"""Which images can be certified: bad input must never yield a certificate."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.errors import DataError

Image = Tensor | NDArray[np.generic]


def checked_image(image: Image) -> Tensor:
    """The image [C, H, W], uint8 or floats in [0,1], or an error that says what is wrong with it."""
    try:
        x = image if isinstance(image, Tensor) else torch.from_numpy(np.array(image))  # a copy: it may be read-only
    except TypeError as error:
        raise DataError(f"expected an image of uint8 (0..255) or floats in [0,1], found {type(image)}") from error
    if x.ndim != 3 or not x.numel():
        raise DataError(f"expected one image of shape [C, H, W], found shape {list(x.shape)}: pass images one by one")
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
