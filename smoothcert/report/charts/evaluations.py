"""Figures of evaluations that need the model: adversarial paths, mixing ratios, noise that varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smoothcert.errors import ConfigError
from smoothcert.png import data_uri
from smoothcert.report.charts.line_styles import LineStyle, styles_of_names
from smoothcert.report.charts.svg import Frame, Line, line_chart, percent
from smoothcert.report.measures.analysis import Floats

_THUMB = 64  # pixels of a picture's side


def path_svg(
    ratios: Floats,
    confidences: tuple[Floats, Floats],
    names: tuple[str, str],
    images: Sequence[NDArray[np.generic]],
    crossing: float | None,
    title: str,
) -> str:
    """Confidence of the image's class and of the class that its adversarial path leads to, below mixed images.

    `images` are points of the path from ratio 0 to 1, evenly spaced, drawn above their ratios.
    """
    lines = [
        Line(f"{names[0]}: the image's answer", ratios, confidences[0], LineStyle(4), 0),
        Line(f"{names[1]}: where the path leads", ratios, confidences[1], LineStyle(2, 1), 1),
    ]
    changes = "never" if crossing is None else f"at ratio {crossing:.2f}"
    frame = Frame(
        (0.0, 1.0),
        (0.0, 1.0),
        height=400,
        top=16 + _THUMB + 12,
        margin_right=16 + _THUMB // 2,
        y_format=percent,
    )
    chart = line_chart(
        lines,
        frame,
        title=title,
        description=f"Smoothed confidence from the image (0) to its unrestricted adversarial image (1); "
        f"the answer changes {changes}.",
        labels=("mixing ratio", "smoothed confidence"),
        name="path",
    )
    pictures = [
        f'<image x="{frame.px(ratio) - _THUMB / 2:.1f}" y="16" width="{_THUMB}" height="{_THUMB}" '
        f'style="image-rendering:pixelated" href="{data_uri(image)}"/>'
        for ratio, image in zip(np.linspace(0, 1, len(images)), images, strict=True)
    ]
    return chart.replace("</svg>", "\n".join([*pictures, "</svg>"]))


def ratio_svg(
    ratios: Mapping[str, ArrayLike], title: str = "Equal-confidence mixing ratios", bins: int = 20
) -> str:
    """Histogram of the mixing ratios at which the answer changes, one outline per model; further right is better.

    NaN stands for an answer that never changes: those inputs are counted, but in no bin.
    """
    if not ratios:
        raise ConfigError("a figure of mixing ratios needs at least one model, found none")
    edges = np.linspace(0.0, 1.0, bins + 1)
    lines, medians, top = [], [], 0.0
    for place, ((name, values), style) in enumerate(
        zip(ratios.items(), styles_of_names(list(ratios)), strict=True)
    ):
        found = np.asarray(values, dtype=np.float64)
        share = np.histogram(found[np.isfinite(found)], edges)[0] / max(len(found), 1)
        outline = np.concatenate([[0.0], np.repeat(share, 2), [0.0]])
        lines.append(Line(name, np.repeat(edges, 2), outline, style, place))
        medians.append(
            f"{name}: median {np.nanmedian(found) if np.isfinite(found).any() else np.nan:.2f}"
        )
        top = max(top, float(share.max()))
    return line_chart(
        lines,
        Frame((0.0, 1.0), (0.0, max(1.1 * top, 0.05)), y_format=percent),
        title=title,
        description=f"Share of inputs by the mixing ratio at which their answer changes. {'; '.join(medians)}.",
        labels=("equal-confidence mixing ratio", "share of inputs"),
        name="ratios",
    )


def dimension_svg(dimensions: Floats, bound: Floats, title: str) -> str:
    """The bound of input-dependent noise over the dimension, on a logarithmic axis of powers of ten."""
    line = Line("bound", np.log10(dimensions), bound, LineStyle(2), 0)
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
