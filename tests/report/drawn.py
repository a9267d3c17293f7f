"""What stands in a figure, as its tests read it."""

from typing import Any, NamedTuple

import numpy as np

from smoothcert.report.plot import COLOURS


class Drawn(NamedTuple):
    label: str
    x: np.ndarray
    y: np.ndarray
    run: int | None  # that the page shows and hides it by
    colour: int
    dashed: Any
    marker: str
    marked: list[int] | None


def lines(figure, axes=0):
    """The lines of runs, in their order; those that mark a place are not among them."""
    return [
        Drawn(
            drawn.get_label(),
            *map(np.asarray, drawn.get_data()),
            run=None if drawn.get_gid() is None else int(drawn.get_gid().split("-")[1]),
            colour=COLOURS.index(drawn.get_color()),
            dashed=drawn.get_linestyle(),
            marker={"None": ""}.get(drawn.get_marker(), drawn.get_marker()),
            marked=drawn.get_markevery(),
        )
        for drawn in figure.axes[axes].get_lines()
        if not drawn.get_label().startswith("_child")  # what matplotlib calls those without a name
    ]


def labels(figure, axes=0):
    return [line.label for line in lines(figure, axes)]


def bands(figure):
    """The ends of the band around each line: what lies below and above."""
    found = []
    for area in figure.axes[0].collections:
        if hasattr(area, "get_segments"):  # bars through points
            ends = np.array([part[:, 1] for part in area.get_segments()])
            found.append((ends.min(axis=1), ends.max(axis=1)))
            continue
        corners = area.get_paths()[0].vertices
        at = np.unique(corners[:, 0])
        found.append(
            tuple(np.array([end(corners[corners[:, 0] == x, 1]) for x in at]) for end in (min, max))
        )
    return found


def words(figure):
    """All words of a figure: its axes, its legends, and what stands beside points."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]
