"""What falling curves have in common: their corners, and the words and the ends of their axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import (
    Floats,
    certified_curve,
    curve_values,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import norm_names
from smoothcert.report.view import Reading
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    pass


def curve_name(runs: Sequence[Certificates]) -> str:
    """What the curves of the runs are."""
    if len({c.labelled for c in runs}) > 1:
        raise ConfigError(
            "runs with labels and runs without have no curves in common: draw them apart"
        )
    return "certified accuracy" if runs[0].labelled else "certified share"


def radius_label(runs: Sequence[Certificates], rounded: bool) -> str:
    """What an axis of radii shows. Rounded radii may be above the proved ones, so that it says where they are."""
    what = "ℓ₂ radii " if any(c.dimension for c in runs) else ""
    return f"radius r ({norm_names(c.norm for c in runs)}{f', {what}rounded to 3 digits' if rounded else ''})"


def answered(runs: Sequence[Certificates]) -> str:
    return "classified correctly" if runs[0].labelled else "answered, right or wrong,"


def axis_top(runs: Sequence[Certificates]) -> tuple[float, float]:
    """The end of both axes: just beyond the largest certified radius, and the next 10 % above the accuracies."""
    radius = max(
        max(float(c.radius[c.counted].max(initial=0.0)), *(c.tested_radii or ()), 0.0) for c in runs
    )
    share = max(float(c.counted.mean()) for c in runs)
    return 1.02 * radius or 1.0, max(math.ceil(10 * share - 1e-9) / 10, 0.1)


def step_corners(c: Certificates, rounded: bool = False) -> tuple[Floats, Floats]:
    """The corners of the curve from left to right: each certified radius at both ends of its drop, then 0.

    Where only some radii were tested there is no curve, but a point at each of them.
    """
    if c.tested_radii is not None:
        return np.array(c.tested_radii), curve_values(c, c.tested_radii, rounded)
    radii, share = certified_curve(c, rounded)
    return np.repeat(radii, 2), np.append(np.repeat(share, 2)[1:], 0.0)


def reading(
    x: Floats,
    start: int,
    symbol: str,
    digits: int,
    runs: Sequence[int],
    shares: Callable[[int], Floats],
    down: bool,
) -> Reading:
    """Shares of the runs on a fine grid, in %, for the slider and the pointer of the page.

    Rounded here, by the rule of the table: the script would print a tie such as 73.25 the other way.
    """
    cells = ([in_percent(share, down) for share in shares(run).tolist()] for run in runs)
    return {
        "x": np.round(x, 6).tolist(),
        "shown": [f"{value:.{digits}f}" for value in x.tolist()],
        "start": start,
        "symbol": symbol,
        "runs": list(runs),
        "values": [[float(cell) if cell else None for cell in row] for row in cells],
    }
