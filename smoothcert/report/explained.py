"""Figures of evaluations that need the model: adversarial paths, mixing ratios, noise that varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import ConfigError
from smoothcert.png import as_bytes
from smoothcert.report.measures.analysis import Floats
from smoothcert.report.plot import (
    LineStyle,
    legend,
    line,
    looks,
    new_figure,
    percent,
    styles_of_names,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@looks()
def path_figure(
    ratios: Floats,
    confidences: tuple[Floats, Floats],
    names: tuple[str, str],
    images: Sequence[NDArray[np.generic]],
    crossing: float | None,
    title: str,
) -> Figure:
    """Confidence of the image's class and of the class that its adversarial path leads to, below mixed images.

    `images` are points of the path from ratio 0 to 1, evenly spaced, drawn above their ratios.
    """
    figure, (axes,) = new_figure(size=(5.5, 3.6))
    own, other = confidences
    line(axes, ratios, own, f"{names[0]}: the image's answer", LineStyle(4))
    line(axes, ratios, other, f"{names[1]}: where the path leads", LineStyle(2, 1))
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    axes.set(xlabel="mixing ratio", ylabel="smoothed confidence")
    percent(axes.yaxis)
    for ratio, image in zip(np.linspace(0, 1, len(images)), images, strict=True):
        small = axes.inset_axes((ratio - 0.07, 1.04, 0.14, 0.22))
        pixels = as_bytes(image).transpose(1, 2, 0)
        small.imshow(pixels.repeat(3 // pixels.shape[2], 2), interpolation="none", aspect="equal")
        small.set_axis_off()
    legend(figure)
    changes = "never" if crossing is None else f"at ratio {crossing:.2f}"
    figure.set_label(
        f"{title}. Smoothed confidence from the image (0) to its unrestricted adversarial image (1); "
        f"the answer changes {changes}."
    )
    return figure


@looks()
def ratio_figure(ratios: Mapping[str, ArrayLike], bins: int = 20) -> Figure:
    """Histogram of the mixing ratios at which the answer changes, one outline per model; further right is better.

    NaN stands for an answer that never changes: those inputs are counted, but in no bin.
    """
    if not ratios:
        raise ConfigError("a figure of mixing ratios needs at least one model, found none")
    edges = np.linspace(0.0, 1.0, bins + 1)
    figure, (axes,) = new_figure()
    medians, top = [], 0.0
    for (name, values), style in zip(ratios.items(), styles_of_names(list(ratios)), strict=True):
        found = np.asarray(values, dtype=np.float64)
        share = np.histogram(found[np.isfinite(found)], edges)[0] / max(len(found), 1)
        outline = np.concatenate([[0.0], np.repeat(share, 2), [0.0]])
        line(axes, np.repeat(edges, 2), outline, name, style)
        middle = np.nanmedian(found) if np.isfinite(found).any() else np.nan
        medians.append(f"{name}: median {middle:.2f}")
        top = max(top, float(share.max()))
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, max(1.1 * top, 0.05)))
    axes.set(xlabel="equal-confidence mixing ratio", ylabel="share of inputs")
    percent(axes.yaxis)
    legend(figure)
    figure.set_label(
        f"Share of inputs by the mixing ratio at which their answer changes. {'; '.join(medians)}."
    )
    return figure


@looks()
def dimension_figure(dimensions: Floats, bound: Floats, title: str) -> Figure:
    """The bound of input-dependent noise over the dimension, on a logarithmic axis."""
    figure, (axes,) = new_figure()
    line(axes, dimensions, bound, "bound", LineStyle(2))
    axes.set(xscale="log", xlim=(dimensions[0], dimensions[-1]), ylim=(0.0, 1.0))
    axes.set(xlabel="input dimension d", ylabel="largest probability that can be promised")
    figure.set_label(
        f"{title}. At most {bound[0]:.3g} in dimension {dimensions[0]:g} and {bound[-1]:.3g} in {dimensions[-1]:g}."
    )
    return figure
