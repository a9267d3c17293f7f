"""Where words beside points stand: none covers a point, a line or another word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

Place = tuple[float, float]
Pixels = tuple[NDArray[np.int64], NDArray[np.int64]]

# pixels: the width of a letter, half the height of a word, the radius of a point
_LETTER, _HALF, _POINT = 6.6, 6, 6
_NEAR = 9  # a word that is further from its point than these pixels has a line to it


@dataclass(frozen=True)
class Placed:
    """The middle of a word, and where a line from its point ends at it, if it stands far away."""

    at: Place
    line: Place | None


def place_words(
    words: Sequence[tuple[Place, str]],
    lines: Sequence[Sequence[Place]],
    area: tuple[float, float, float, float],
) -> list[Placed | None]:
    """The first free place around its point for each word, all in pixels; None where it is too crowded.

    Points are joined by `lines`. The `area` is (left, top, right, bottom). Lines to words that stand far away cross no
    word, and each other only where a word finds no other place.
    """
    left, top, right, bottom = area
    covered, texts, ties = np.zeros(
        (3, math.ceil(bottom - top) + 1, math.ceil(right - left) + 1), bool
    )

    def along(start: Place, end: Place, gap: float = 0) -> Pixels:
        """The pixels of a line inside the area, but for a gap at its start."""
        length = math.dist(start, end)
        steps = np.linspace(min(gap / max(length, 1), 1), 1, int(2 * length) + 2)
        x, y = (
            np.rint(a + steps * (b - a) - low).astype(int)
            for a, b, low in zip(start, end, area[:2], strict=True)
        )
        inside = (x >= 0) & (y >= 0) & (x < covered.shape[1]) & (y < covered.shape[0])
        return y[inside], x[inside]

    def box(x: float, y: float, wide: float, high: float) -> tuple[slice, slice]:
        ends = [
            (middle - size, middle + size) for middle, size in ((y - top, high), (x - left, wide))
        ]
        down, across = (slice(max(math.floor(low), 0), max(math.ceil(end), 0)) for low, end in ends)
        return down, across

    for line in lines:
        for start, end in pairwise([*line, *line[-1:]]):
            covered[along(start, end)] = covered[box(*start, _POINT, _POINT)] = True
    found: list[Placed | None] = []
    for (x, y), text in words:
        half = _LETTER * len(text) / 2 + 1
        found.append(None)
        for crossing, (across, down) in product((False, True), _moves(half)):
            at = x + across, y + down
            if not (
                left <= at[0] - half
                and at[0] + half <= right
                and top <= at[1] - _HALF <= bottom - 2 * _HALF
            ):
                continue
            end = min(max(x, at[0] - half), at[0] + half), min(max(y, at[1] - _HALF), at[1] + _HALF)
            far = math.dist((x, y), end) > _NEAR
            room, tie = box(*at, half, _HALF), along((x, y), end, _POINT)
            blocked = far and (texts[tie].any() or (ties[tie].any() and not crossing))
            if not (blocked or covered[room].any()):
                covered[room] = texts[room] = True
                if far:
                    covered[tie] = ties[tie] = True
                found[-1] = Placed(at, end if far else None)
                break
    return found


def _moves(half: float) -> Iterator[Place]:
    """From a point to the middle of its word: above, below, right, left, askew, then further and further away."""
    yield from ((0, -13), (0, 13), (half + 8, 0), (-half - 8, 0))
    yield from ((side * (half + 4), down) for down in (-10, 10) for side in (1, -1))
    for reach in range(24, 60, 12):
        for turn in range(16):
            angle = turn * math.pi / 8
            yield math.sin(angle) * (reach + half), -math.cos(angle) * reach
