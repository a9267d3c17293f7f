"""The upper envelope of the curves of each group of runs, and below it which run is the best at which radii."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.charts.chart import Chart, Segment, Strip
from smoothcert.report.charts.curves import axis_top, radius_label
from smoothcert.report.charts.line_styles import LineStyle, styles_of
from smoothcert.report.charts.svg import Frame, Line, percent
from smoothcert.report.measures.envelope import EnvelopeCurve, envelope_curve
from smoothcert.report.measures.groups import Group, Grouping, groups_of, lacking_sigmas
from smoothcert.report.measures.same_data import require_same_data
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import drawn_labels, one_line


def envelope_chart(
    results: Sequence[Certificates], by: Grouping = "method", rounded: bool = False
) -> Chart:
    """One curve per group. Runs without labels, and those that tested only some radii, have no part in it.

    A picture has no notes: the name of a group says which sigmas it lacks that others have.
    """
    runs = [c for c in results if c.labelled and c.tested_radii is None]
    norms = {c.norm for c in runs}
    if len(norms) > 1:
        raise ConfigError(
            f"an envelope needs radii in one norm, found {' and '.join(sorted(norms))}: draw them apart"
        )
    groups = groups_of(runs, by)
    for group in groups:
        require_same_data([runs[i] for i in group.runs], f"the best run of {group.name}")
    lacking = lacking_sigmas(runs, groups, by)
    groups = [
        replace(group, name=_name(group, sigmas))
        for group, sigmas in zip(groups, lacking, strict=True)
    ]
    curves = [envelope_curve([runs[i] for i in group.runs], rounded) for group in groups]
    known = [
        (group, curve) for group, curve in zip(groups, curves, strict=True) if curve is not None
    ]
    if not known:
        raise ConfigError(
            "an envelope needs a run with labels, with radii of its own and a correct answer, found none"
        )
    styles = styles_of([group.key for group, _ in known])
    lines = [
        Line(group.name, *_corners(curve), style, place)
        for place, ((group, curve), style) in enumerate(zip(known, styles, strict=True))
    ]
    strips = [
        _strip(runs, group, curve, style)
        for (group, curve), style in zip(known, styles, strict=True)
    ]
    top = axis_top(runs)
    told = "; ".join(f"{strip.label}: {', '.join(map(_told, strip.segments))}" for strip in strips)
    return Chart(
        tuple(lines),
        Frame((0.0, top[0]), (0.0, top[1]), ticks=(9, 11), y_format=percent),
        title="Upper envelopes of certified accuracy",
        description=f"The largest certified accuracy of any run of a group, at each radius. Best runs: {told}.",
        labels=(radius_label(runs, rounded), "certified accuracy of the best run"),
        name="envelope",
        strips=tuple(strips) if any(len(group.runs) > 1 for group, _ in known) else (),
    )


def _name(group: Group, lacking: Sequence[float]) -> str:
    return group.name + f" (no σ={', '.join(f'{sigma:g}' for sigma in lacking)})" * bool(lacking)


def _corners(curve: EnvelopeCurve) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(curve.radii, 2), np.append(np.repeat(curve.accuracy, 2)[1:], 0.0)


def _strip(
    runs: Sequence[Certificates], group: Group, curve: EnvelopeCurve, style: LineStyle
) -> Strip:
    own = [runs[i] for i in group.runs]
    labels = drawn_labels(own)
    if len({c.name for c in own}) == 1 and len({c.sigma for c in own}) == len(
        own
    ):  # only sigma tells them apart
        labels = [one_line(own[0].name) if c.sigma is None else f"σ={c.sigma:g}" for c in own]
    segments = [
        Segment(stretch.start, stretch.end, labels[stretch.run]) for stretch in curve.stretches
    ]
    return Strip(group.name, style, tuple(segments))


def _told(segment: Segment) -> str:
    return f"{segment.text} from {segment.start:.3g} to {segment.end:.3g}"
