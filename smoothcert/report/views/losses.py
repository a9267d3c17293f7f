"""Several trainings in one picture: loss and accuracy on noisy test images after each epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import Floats
from smoothcert.report.plot import (
    SOFT,
    LineStyle,
    legend,
    line,
    looks,
    new_figure,
    percent,
    run_styles,
    styles_of,
    word,
)
from smoothcert.report.read.names import one_line
from smoothcert.report.read.trainings import Training, finite
from smoothcert.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report

# entry of metrics.jsonl -> title of its chart
MEASURES = {"loss": "Training loss", "noisy_test_accuracy": "Accuracy on noisy test images"}


class Mark(NamedTuple):
    """Where the learning rate drops, with a word that may be empty."""

    epochs: float
    text: str
    about: str


@looks()
def loss_figure(
    trainings: Sequence[Training],
    epochs: int | None = None,
    runs: Mapping[str, tuple[int, LineStyle]] | None = None,
) -> Figure:
    """A chart of each measure that any training has, over the number of finished epochs; drops of the rate are marked.

    Each training has one style in both, on a page that of its run: `runs` has its place and style by name. Of a
    repeated epoch the last counts. `epochs` shows only so many.
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
    known = {
        measure: [t for t in trainings if len(_series(t, _entry(t, measure))[0])]
        for measure in MEASURES
    }
    if not known["loss"]:
        raise ConfigError(
            "a drawing of losses needs a training of one epoch or more, found none: name run folders with a "
            "metrics.jsonl, or training logs with the columns epoch and train loss"
        )
    titles = dict(MEASURES)
    if any(training.loss != "loss" for training in trainings):
        titles["loss"] += " without regularisers"
    shown = [measure for measure, own in known.items() if own]
    figure, every = new_figure(len(shown))
    told = []
    for axes, measure in zip(every, shown, strict=True):
        for place, (training, style) in enumerate(zip(trainings, styles, strict=True)):
            if training in known[measure]:
                x, y = _series(training, _entry(training, measure))
                run, look = (runs or {}).get(training.name, (len(runs or ()) + place, style))
                line(axes, x, y, training.name, look, run, marker="dots" if len(x) == 1 else "")
                told.append(f"{titles[measure]}: {training.name}: {y[0]:.3g} to {y[-1]:.3g}")
        _frame(axes, measure)
        axes.set(xlabel="epochs", ylabel=titles[measure].lower())
        _mark(axes, _drops(trainings))
    legend(figure)
    told += [mark.about for mark in _drops(trainings)]
    figure.set_label("; ".join(told) + ".")
    return figure


def _entry(training: Training, measure: str) -> str:
    return training.loss if measure == "loss" else measure


def _frame(axes: Axes, measure: str) -> None:
    """Around the values: shares between 0 and 1, losses from 0 if that is near, and ticks at whole epochs."""
    from matplotlib.ticker import MaxNLocator

    values = np.concatenate([np.asarray(drawn.get_ydata()) for drawn in axes.get_lines()])
    last = max(float(np.max(drawn.get_xdata())) for drawn in axes.get_lines())
    low, high = float(values.min()), float(values.max())
    if measure == "loss":
        low = min(low, 0.0) if low < 0.3 * high else low
    pad = 0.06 * (high - low) or 0.5
    if measure == "loss":
        axes.set_ylim(low if low == 0 else low - pad, high + pad)
    else:
        axes.set_ylim(max(low - pad, 0.0), min(high + pad, 1.0))
        percent(axes.yaxis)
    axes.set_xlim(0.0, last)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _mark(axes: Axes, marks: Sequence[Mark]) -> None:
    for mark in marks:
        axes.axvline(mark.epochs, color=SOFT, linewidth=0.8, linestyle=":")
        word(axes, mark.text, (mark.epochs, axes.get_ylim()[1]), (2, -2), va="top", color=SOFT)


def _within(epoch: Mapping[str, Any], epochs: int) -> bool:
    return finite(epoch, "epoch") and bool(epoch["epoch"] < epochs)


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


def _draw(report: Report) -> Figure:
    """On the page lines look as those of the runs, and a single epoch is none."""
    if not report.on_page:
        return loss_figure(report.trainings, report.options.epochs)
    styles = enumerate(run_styles(report.runs))
    runs = {one_line(c.name): place for c, place in zip(report.runs, styles, strict=True)}
    known = [
        training
        for training in report.trainings
        if sum(finite(epoch, "epoch", training.loss) for epoch in training.epochs) > 1
    ]
    return loss_figure(known, runs=runs)


VIEW = View(
    "losses",
    "Training",
    "losses and accuracies after each epoch of training",
    draw=_draw,
    how=lambda report: "Lines of runs look as in the curves above.",
    keys=True,
)
