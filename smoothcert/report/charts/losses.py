"""Several trainings in one picture: loss and accuracy on noisy test images after each epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.charts.chart import Chart, Mark
from smoothcert.report.charts.line_styles import LineStyle, styles_of
from smoothcert.report.charts.svg import Frame, Line, percent
from smoothcert.report.charts.training import MEASURES, whole_ticks
from smoothcert.report.measures.analysis import Floats
from smoothcert.report.read.trainings import Training, finite


def loss_charts(trainings: Sequence[Training], epochs: int | None = None) -> list[Chart]:
    """A chart of each measure that any training has, over the number of finished epochs; drops of the rate are marked.

    Each training has one style in both. Of a repeated epoch the last counts. `epochs` shows only so many.
    """
    if epochs is not None:
        if epochs < 1:
            raise ConfigError(f"expected a number of epochs to show, at least 1, found {epochs}")
        trainings = [
            replace(t, epochs=[e for e in t.epochs if _within(e, epochs)]) for t in trainings
        ]
    keys = [training.key for training in trainings]
    # where all are of one method, there is no other to be told from: each has a colour of its own
    styles = styles_of(keys if len(set(keys)) > 1 else [str(place) for place in range(len(keys))])
    lines = {measure: _lines(trainings, styles, measure) for measure in MEASURES}
    if not lines["loss"]:
        raise ConfigError(
            "a drawing of losses needs a training of one epoch or more, found none: name run folders with a "
            "metrics.jsonl, or training logs with the columns epoch and train loss"
        )
    marks = _drops(trainings)
    titles = dict(MEASURES)
    if any(training.loss != "loss" for training in trainings):
        titles["loss"] += " without regularisers"
    return [
        _chart(measure, titles[measure], found, marks) for measure, found in lines.items() if found
    ]


def _within(epoch: Mapping[str, Any], epochs: int) -> bool:
    return finite(epoch, "epoch") and bool(epoch["epoch"] < epochs)


def _lines(trainings: Sequence[Training], styles: Sequence[LineStyle], measure: str) -> list[Line]:
    lines = []
    for place, (training, style) in enumerate(zip(trainings, styles, strict=True)):
        x, y = _series(training, training.loss if measure == "loss" else measure)
        if len(x):
            lines.append(Line(training.name, x, y, style, place, dots=len(x) == 1))
    return lines


def _series(training: Training, entry: str) -> tuple[Floats, Floats]:
    """The number of finished epochs, and the entry after each of them."""
    values = {
        1 + float(e["epoch"]): float(e[entry]) for e in training.epochs if finite(e, "epoch", entry)
    }
    x = np.array(sorted(values))
    return x, np.array([values[epochs] for epochs in x.tolist()])


def _drops(trainings: Sequence[Training]) -> list[Mark]:
    """Where the learning rate changes: a word where all that change it there take the same rate, and there is room."""
    found: dict[float, dict[str, float]] = {}
    for training in trainings:
        x, rates = _series(training, "lr")
        for finished, before, after in zip(x[:-1], rates[:-1], rates[1:], strict=True):
            if not math.isclose(before, after):
                found.setdefault(float(finished), {})[training.name] = float(after)
    last, free = (
        max(
            (float(e["epoch"]) for t in trainings for e in t.epochs if finite(e, "epoch")),
            default=0.0,
        ),
        -1.0,
    )
    marks = []
    for finished, changes in sorted(found.items()):
        words = {f"lr {rate:.3g}" for rate in changes.values()}
        word = words.pop() if len(words) == 1 and finished > free else ""
        free = finished + 0.15 * last if word else free  # words must not lie over each other
        about = "; ".join(
            f"{name}: learning rate {rate:.3g} from here" for name, rate in changes.items()
        )
        marks.append(Mark(finished, word, about))
    return marks


def _chart(measure: str, title: str, lines: Sequence[Line], marks: Sequence[Mark]) -> Chart:
    last = max(float(line.x.max()) for line in lines)
    values = np.concatenate([line.y for line in lines])
    low, high = float(values.min()), float(values.max())
    if measure == "loss":
        low, high = min(low, 0.0) if low < 0.3 * high else low, high
    pad = 0.06 * (high - low) or 0.5
    share = measure != "loss"
    y = (
        (max(low - pad, 0.0), min(high + pad, 1.0))
        if share
        else (low if low == 0 else low - pad, high + pad)
    )
    frame = Frame(
        (0.0, last),
        y,
        width=540,
        height=340,
        left=78,
        ticks=(whole_ticks(last), 7),
        y_format=percent if share else "{:g}".format,
    )
    told = "; ".join(f"{line.label}: {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in lines)
    return Chart(
        tuple(lines),
        frame,
        title=title,
        description=f"{told}.",
        labels=("epochs", title.lower()),
        name=f"losses-{measure}",
        marks=tuple(marks),
    )
