"""Charts of training: an entry of `metrics.jsonl` against the number of finished epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smoothcert.report.charts.line_styles import COLOURS, LineStyle
from smoothcert.report.charts.svg import Frame, Line, line_chart, percent, ticks
from smoothcert.report.read.names import one_line
from smoothcert.report.read.trainings import finite

Epochs = Sequence[Mapping[str, Any]]

# entry of metrics.jsonl -> title of its chart
MEASURES = {"loss": "Training loss", "noisy_test_accuracy": "Accuracy on noisy test images"}


def training_svg(
    training: Mapping[str, Epochs], measure: str, runs: Mapping[str, tuple[int, LineStyle]]
) -> str | None:
    """One entry of the metrics after each epoch, or None if no run has it; of a repeated epoch the last counts.

    `runs` gives the place and the style of a run in the report.
    """
    lines: list[Line] = []
    for name, epochs in training.items():
        values = {
            1 + float(e["epoch"]): float(e[measure]) for e in epochs if finite(e, "epoch", measure)
        }
        x = np.array(sorted(values))
        y = np.array([values[epoch] for epoch in x.tolist()])
        if len(x) > 1:
            place, style = runs.get(
                name, (len(runs) + len(lines), LineStyle(len(lines) % len(COLOURS)))
            )
            lines.append(Line(one_line(name), x, y, style, place))
    if not lines:
        return None
    last = max(float(line.x.max()) for line in lines)
    low, high = (
        min(float(line.y.min()) for line in lines),
        max(float(line.y.max()) for line in lines),
    )
    size: dict[str, Any] = {"width": 540, "height": 320, "ticks": (whole_ticks(last), 7)}
    if measure == "loss":
        frame = Frame((0.0, last), (min(low, 0.0), 1.05 * high if high > 0 else 1.0), **size)
    else:  # a share, near 1 in the end
        start = min(math.floor(10 * low) / 10, 0.9)
        frame = Frame((0.0, last), (start, 1.0), **size, y_format=percent)
    return line_chart(
        lines,
        frame,
        title=MEASURES[measure],
        description="; ".join(
            f"{line.label}: {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in lines
        ),
        labels=("epochs", ""),
        legend=False,
        name=f"training-{measure}",
    )


def whole_ticks(last: float) -> int:
    """How many ticks an axis of epochs may have at most, so that none is within an epoch."""
    most = min(9, int(last) + 1)
    return next(
        n for n in range(most, 0, -1) if n == 1 or all(tick.is_integer() for tick in ticks(last, n))
    )
