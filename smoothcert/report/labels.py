"""How radii and differences are written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.read.certificates import Certificates


def radius_digits(c: Certificates) -> int:
    """Of a mean radius; those in l-infinity norm are small."""
    return 5 if c.norm == "linf" else 3


def checked_radii(radii: Sequence[float]) -> list[float]:
    if not all(np.isfinite(r) and r >= 0 for r in radii):
        raise ConfigError(f"expected radii of at least 0, found {list(radii)}")
    return list(radii)


def radius_labels(radii: Sequence[float]) -> tuple[str, ...]:
    return tuple(_radius_label(r) for r in radii)


def _radius_label(r: float) -> str:
    """`0.50`; `2/255`, as steps of 8-bit images are written; else as many digits as it has."""
    if round(r, 2) == r:
        return f"{r:.2f}"
    levels = round(255 * r)
    return f"{levels}/255" if abs(255 * r - levels) < 1e-9 else f"{r:g}"


def signed(value: float, digits: int) -> str:
    """With its sign, but never "-0.0"."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"
