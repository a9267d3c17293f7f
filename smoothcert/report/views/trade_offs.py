"""Clean accuracy against robustness, of several methods in one picture, with published rows beside ours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import proved
from smoothcert.report.measures.overlays import Series, Spot, at_least, overlays
from smoothcert.report.plot import (
    LineStyle,
    around,
    legend,
    line,
    looks,
    new_figure,
    percent,
    styles_of,
    word,
)
from smoothcert.report.view import View
from smoothcert.statistics.printed import in_percent, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report


@looks()
def overlay_figure(
    series: Sequence[Series],
    radii: Sequence[float],
    least: float = 0.0,
    rounded: bool = False,
    down: bool = False,
) -> Figure:
    """Clean accuracy against the ACR, then against the certified accuracy at each radius: right and up is better.

    Spots of a method are joined in the order of what varies, and have its values beside them. Those of published rows
    are hollow, and have no value where a spot of ours has the same one beside it (`_carried`). Spots with a clean
    accuracy below `least` are left out, and counted below the axis. The words round `down`.
    """
    series, left_out = at_least(series, least)
    if not any(entry.spots for entry in series):
        raise ConfigError(
            f"a drawing of trade-offs needs a run with labels, radii of its own and a clean accuracy of at least "
            f"{least:g}, found none"
        )
    measures = ["average certified radius", *(f"certified accuracy at r = {r:g}" for r in radii)]
    shown = [
        (column, name + ", 3-digit radii" * rounded)
        for column, name in enumerate(measures, start=1)
        if any(_drawn(entry, column) for entry in series)
    ]
    figure, every = new_figure(len(shown))
    clean = f" ({left_out} below {100 * least:g} % left out)" if left_out else ""
    styles, told = styles_of([entry.key for entry in series]), []
    for axes, (column, name) in zip(every, shown, strict=True):
        words = []
        for place, (entry, style) in enumerate(zip(series, styles, strict=True)):
            if spots := _drawn(entry, column):
                words.append(_points(axes, entry, spots, column, style, place, down))
                _values(axes, entry, spots, column, _carried(entry, series, column))
        x, y = (
            np.concatenate([np.asarray(drawn.get_data()[axis]) for drawn in axes.get_lines()])
            for axis in (0, 1)
        )
        axes.set(xlim=around(x), ylim=around(y), xlabel=f"accuracy at r = 0{clean}", ylabel=name)
        percent(axes.xaxis)
        if column > 1:
            percent(axes.yaxis)
        told.append(f"Clean accuracy and {name}. {'; '.join(words)}.")
    legend(figure)
    figure.set_label(" ".join(told))
    return figure


def _points(
    axes: Axes,
    entry: Series,
    spots: Sequence[Spot],
    column: int,
    style: LineStyle,
    place: int,
    down: bool,
) -> str:
    x, y = (np.array([spot.values[k] for spot in spots]) for k in (0, column))
    line(axes, x, y, _label(entry), style, place, marker="hollow" if entry.published else "full")
    spoken = (_told(*each, down) for each in zip(spots, x, y, strict=True))
    return f"{_label(entry)}: " + ", ".join(spoken)


def _values(
    axes: Axes, entry: Series, spots: Sequence[Spot], column: int, carried: Collection[float | None]
) -> None:
    for spot in spots:
        if entry.parameter and spot.value not in carried:
            at = spot.values[0], spot.values[column]
            word(axes, f"{spot.value:g}", at, (0, 5), ha="center")


def _drawn(entry: Series, column: int) -> list[Spot]:
    return [
        spot for spot in entry.spots if np.isfinite([spot.values[0], spot.values[column]]).all()
    ]


def _carried(entry: Series, series: Sequence[Series], column: int) -> set[float | None]:
    """The values of a published series that stand beside spots of ours already: they would be there twice.

    Those spots are of the same method and parameter, and on the same data at the same sigma: where these differ, the
    notes of each series say its own, and those of published rows say nothing else.
    """
    if not entry.published:
        return set()
    what = entry.key, entry.parameter
    ours = [own for own in series if not own.published and (own.key, own.parameter) == what]
    return {
        spot.value for own in ours if {*entry.notes} <= {*own.notes} for spot in _drawn(own, column)
    }


def _told(spot: Spot, x: float, y: float, proved: bool) -> str:
    value = "" if spot.value is None else f"{spot.value:g}: "
    return f"{value}{in_percent(x, proved)} % and {number(y, 3, proved)}"


def _label(entry: Series) -> str:
    label = (
        ("published: " if entry.published else "")
        + entry.name
        + f" by {entry.parameter}" * bool(entry.parameter)
    )
    return label + "".join(f" ({note})" for note in entry.notes)


def _draw(report: Report) -> Figure:
    options, radii = report.options, report.options.radii or ()
    series = overlays(report.runs, radii, options.published, options.rounded)
    if report.on_page and not any(entry.parameter and len(entry.spots) > 1 for entry in series):
        raise ConfigError("trade-offs need runs that differ in one number")
    down = proved(report.runs, options.rounded) and not options.published
    return overlay_figure(series, radii, options.least_accuracy, options.rounded, down)


VIEW = View(
    "trade-offs",
    "Accuracy against robustness",
    "accuracy against robustness along a hyperparameter, also of published rows",
    draw=_draw,
    keys=True,
)
