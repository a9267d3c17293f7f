"""Figures of evaluations that need the model: attacks beside certificates, adversarial paths, noise that varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from smoothcert.errors import ConfigError
from smoothcert.report.analysis import Floats
from smoothcert.report.certificates import Certificates
from smoothcert.report.curves import axis_top, step_corners, thin
from smoothcert.report.looks import DASHES, Look, run_looks
from smoothcert.report.svg import Frame, Line, line_chart, percent


def attack_svg(certified: Certificates, empirical: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """The certified curve of a run and, for each attack, the accuracy it leaves at its radii: the truth lies between.

    `empirical` maps an attack's name to (radii, accuracies). Below the smallest attacked radius the line starts at
    radius 0 with the smoothed classifier's own accuracy.
    """
    if not empirical:
        raise ConfigError("a figure of attacks needs at least one attack, found none")
    look, clean = run_looks([certified])[0], float(certified.correct.mean())
    ends = [max(radii) for radii, _ in empirical.values()]
    top = (max(axis_top([certified])[0], 1.02 * max(ends)), axis_top([certified])[1])
    lines = [Line(f"{certified.name}: certified", *thin(*step_corners(certified), top=top, points=400), look, 0)]
    for place, (name, (radii, accuracies)) in enumerate(empirical.items(), start=1):
        x, y = np.array([0.0, *radii]), np.array([clean, *accuracies])
        lines.append(Line(f"under attack: {name}", x, y, Look(look.colour, place % len(DASHES)), place))
    said = "; ".join(
        f"{name}: " + ", ".join(f"{100 * a:.1f} % at {r:g}" for r, a in zip(*points, strict=True))
        for name, points in empirical.items()
    )
    return line_chart(
        lines,
        Frame((0.0, top[0]), (0.0, top[1]), ticks=(9, 11), y_format=percent),
        title=f"Certified and empirical accuracy of {certified.name}",
        description=f"Certified accuracy is proved from below, accuracy under attack bounds it from above. {said}.",
        labels=("radius r (ℓ₂)", "accuracy"),
        name="attacks",
    )


def path_svg(
    ratios: Floats, own: Floats, other: Floats, names: tuple[str, str], crossing: float | None, title: str
) -> str:
    """Confidence of the image's class and of the class its adversarial path leads to, by mixing ratio."""
    lines = [Line(names[0], ratios, own, Look(4), 0), Line(names[1], ratios, other, Look(2, 1), 1)]
    said = "never" if crossing is None else f"at ratio {crossing:.2f}"
    return line_chart(
        lines,
        Frame((0.0, 1.0), (0.0, 1.0), height=300, y_format=percent),
        title=title,
        description=f"Smoothed confidence from the image (0) to its unrestricted adversarial image (1); "
        f"the answer changes {said}.",
        labels=("mixing ratio", "smoothed confidence"),
        name="path",
    )


def ratio_svg(ratios: Mapping[str, ArrayLike], title: str = "Equal-confidence mixing ratios") -> str:
    """Share of inputs whose answer has changed by a mixing ratio, a line a model: further right is better."""
    if not ratios:
        raise ConfigError("a figure of mixing ratios needs at least one model, found none")
    grid = np.linspace(0.0, 1.0, 201)
    lines, said = [], []
    for place, (name, values) in enumerate(ratios.items()):
        found = np.asarray(values, dtype=np.float64)  # NaN: never changed
        share = np.array([np.mean(found <= ratio) for ratio in grid])
        lines.append(Line(name, grid, share, Look(place % 8, place // 8), place))
        said.append(f"{name}: {100 * share[100]:.1f} % by ratio 0.5")
    return line_chart(
        lines,
        Frame((0.0, 1.0), (0.0, 1.0), y_format=percent),
        title=title,
        description=f"Share of inputs whose answer has changed. {'; '.join(said)}.",
        labels=("mixing ratio", "answer changed"),
        name="ratios",
    )


def dimension_svg(dimensions: Floats, bound: Floats, title: str) -> str:
    """The bound of input-dependent noise over the dimension, on a logarithmic axis of powers of ten."""
    line = Line("bound", np.log10(dimensions), bound, Look(2), 0)
    ends = (float(np.log10(dimensions[0])), float(np.log10(dimensions[-1])))
    return line_chart(
        [line],
        Frame(ends, (0.0, 1.0), height=320),
        title=title,
        description=f"At most {bound[0]:.3g} in dimension {dimensions[0]:g} and {bound[-1]:.3g} in {dimensions[-1]:g}.",
        labels=("log₁₀ of the input dimension d", "largest probability that can be promised"),
        legend=False,
        name="dimension",
    )
