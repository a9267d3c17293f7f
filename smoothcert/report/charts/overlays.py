"""Clean accuracy against robustness, of several methods in one picture, with published rows beside ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.charts.chart import Chart, Text
from smoothcert.report.charts.line_styles import LineStyle, styles_of
from smoothcert.report.charts.scatter import axis_around
from smoothcert.report.charts.svg import Frame, Line, percent
from smoothcert.report.measures.overlays import Series, Spot, at_least
from smoothcert.statistics.printed import in_percent, number


def overlay_charts(
    series: Sequence[Series],
    radii: Sequence[float],
    least: float = 0.0,
    rounded: bool = False,
    down: bool = False,
) -> list[Chart]:
    """Clean accuracy against the ACR, then against the certified accuracy at each radius: right and up is better.

    Spots of a method are joined in the order of what varies, and have its values beside them, where there is room.
    Those of published rows are hollow, and have no value where a spot of ours has the same one beside it (`_carried`).
    Spots with a clean accuracy below `least` are left out, and counted below the axis. The words round `down`.
    """
    series, left_out = at_least(series, least)
    if not any(entry.spots for entry in series):
        raise ConfigError(
            f"a drawing of trade-offs needs a run with labels, radii of its own and a clean accuracy of at least "
            f"{least:g}, found none"
        )
    styles = styles_of([entry.key for entry in series])
    measures = ["average certified radius", *(f"certified accuracy at r = {r:g}" for r in radii)]
    measures = [name + ", 3-digit radii" * rounded for name in measures]
    clean = "accuracy at r = 0" + (
        f" ({left_out} below {100 * least:g} % left out)" if left_out else ""
    )
    width = 460 if radii else 720
    charts = [
        _chart(series, styles, column, (clean, name), width, down)
        for column, name in enumerate(measures, start=1)
    ]
    return [chart for chart in charts if chart is not None]


def _chart(
    series: Sequence[Series],
    styles: Sequence[LineStyle],
    column: int,
    labels: tuple[str, str],
    width: int,
    down: bool,
) -> Chart | None:
    lines, words, told = [], [], []
    for place, (entry, style) in enumerate(zip(series, styles, strict=True)):
        spots = _drawn(entry, column)
        if not spots:
            continue
        x, y = (np.array([spot.values[k] for spot in spots]) for k in (0, column))
        lines.append(
            Line(_label(entry), x, y, style, place, marker="hollow" if entry.published else "full")
        )
        spoken = (_told(*each, down) for each in zip(spots, x, y, strict=True))
        told.append(f"{_label(entry)}: " + ", ".join(spoken))
        if entry.parameter:
            carried = _carried(entry, series, column)
            named = [spot for spot in spots if spot.value not in carried]
            words += [
                Text(spot.values[0], spot.values[column], f"{spot.value:g}") for spot in named
            ]
    if not lines:
        return None
    x, y = (np.concatenate([getattr(line, axis) for line in lines]) for axis in ("x", "y"))
    frame = Frame(
        axis_around(x),
        axis_around(y),
        width=width,
        height=360,
        left=78,
        ticks=(6, 7),
        x_format=percent,
        y_format=percent if column > 1 else "{:g}".format,
    )
    return Chart(
        tuple(lines),
        frame,
        title=f"Accuracy and {labels[1]}",
        description=f"Clean accuracy and {labels[1]}. {'; '.join(told)}.",
        labels=labels,
        name=f"trade-off-{column}",
        texts=tuple(words),
    )


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
