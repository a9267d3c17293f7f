"""What is printed claims no more than was proved: bounds are rounded to the cautious side, doubts are told."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

UNITS = "sigma and radii are in units of images whose pixels lie in [0, 1]"


def at_least(bound: float, digits: int) -> str:
    """A proven lower bound (a certified radius, a probability), rounded down to `digits` decimals."""
    return _rounded(bound, digits, ROUND_FLOOR)


def at_most(bound: float, digits: int) -> str:
    """A proven upper bound, rounded up to `digits` decimals."""
    return _rounded(bound, digits, ROUND_CEILING)


def number(value: float, digits: int, proved: bool = False) -> str:
    """Rounded, down if it was `proved`; blank where it is not known."""
    if math.isnan(value):
        return ""
    return at_least(value, digits) if proved else f"{value:.{digits}f}"


def in_percent(share: float | None, proved: bool = False, digits: int = 1) -> str:
    """A share as `number`, but what is neither 0 nor 100 % has as many digits as it needs not to look so."""
    if share is None:
        return ""
    # 12 digits: 100 times the double 0.29 is a little less than 29, which would be rounded down
    text = number(float(f"{100 * share:.12g}") if proved else 100 * share, digits, proved)
    hidden = 0 < share < 1 and float(text) in (0, 100)
    return in_percent(share, proved, digits + 1) if hidden else text


def doubt(noise: str | None) -> str:
    """What must stand beside all numbers that were made with this mode of noise; empty if nothing."""
    return "float noise: not formally sound" if noise == "float" else ""


def settings(
    n0: int | None, n: int | None, alpha: float | None, noise: str | None, *, early: bool = False
) -> str:
    """What every radius depends on beside sigma, as far as it is known; `early`: sampling may have stopped before n."""
    known = (
        None if n0 is None else f"n0 = {n0:,}",
        None if n is None else f"n {'up to' if early else '='} {n:,}",
        None if alpha is None else f"alpha = {alpha:g}",
        None if noise is None else f"{noise} noise",
    )
    return ", ".join(part for part in known if part)


def _rounded(bound: float, digits: int, rounding: str) -> str:
    # by its shortest decimal form: a tested radius 0.3, in binary a little less, is printed as 0.300, not as 0.299
    return f"{Decimal(repr(float(bound))).quantize(Decimal(1).scaleb(-digits), rounding)}"
