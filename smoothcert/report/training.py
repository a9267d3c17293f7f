"""The course of a training run, as its `metrics.jsonl` tells it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smoothcert.report.names import one_line
from smoothcert.report.svg import Line, line_chart

Epochs = Sequence[Mapping[str, Any]]


def loss_svg(training: Mapping[str, Epochs], slots: Mapping[str, int]) -> str | None:
    """Training loss against the epoch, or nothing if no run has one; a resumed run may have an epoch twice."""
    lines: list[Line] = []
    for name, epochs in training.items():
        losses = {float(e["epoch"]): float(e["loss"]) for e in epochs if _finite(e, "epoch", "loss")}
        x = np.array(sorted(losses))
        y = np.array([losses[epoch] for epoch in x.tolist()])
        if len(x) > 1:
            lines.append(Line(one_line(name), x, y, slots.get(name, len(slots) + len(lines))))
    if not lines:
        return None
    top = max(float(line.x.max()) for line in lines), max(float(line.y.max()) for line in lines)
    return line_chart(
        lines,
        title="Training loss",
        description="; ".join(f"{line.label}: {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in lines),
        labels=("epoch", "training loss"),
        top=(top[0], 1.05 * top[1] if top[1] > 0 else 1.0),
        name="training",
    )


def _finite(epoch: Mapping[str, Any], *keys: str) -> bool:
    values = [epoch.get(key) for key in keys]
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)
