"""A drawing as a figure for a paper: PDF or PNG by matplotlib, SVG by our own drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smoothcert.errors import ConfigError, MissingExtra
from smoothcert.files import atomic_write, write_text
from smoothcert.report.charts.axes import draw_charts
from smoothcert.report.charts.chart import charts_svg
from smoothcert.report.charts.drawings import Scene, draw
from smoothcert.report.read.certificates import Certificates

FORMATS = (".pdf", ".png", ".svg")


def save_figure(
    results: Sequence[Certificates],
    path: str | Path,
    *,
    drawing: str = "accuracy",
    title: str = "",
    rounded: bool = False,
    size: tuple[float, float] | None = None,
    **more: Any,
) -> None:
    """Write a drawing of the runs (`drawings.DRAWINGS`) to `path`; its ending says the format, `size` is in inches.

    `more` is what only some drawings need: other entries of `drawings.Scene`, by name. Colours and dashes are those of
    the page. The same results give the same bytes.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise ConfigError(
            f"{path}: a figure ends in {', '.join(FORMATS)}, found '{path.suffix}'; choose one of them"
        )
    charts = draw(drawing, Scene(results, rounded, **more))
    if kind == ".svg":
        write_text(
            path, charts_svg([replace(chart, title=title or chart.title) for chart in charts])
        )
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "figures", f"a figure as {kind[1:].upper()}") from None
    figure = draw_charts(charts, title, size)
    metadata = {"CreationDate": None} if kind == ".pdf" else {"Software": None}
    with atomic_write(path) as file:
        figure.savefig(file, format=kind[1:], dpi=200, metadata=metadata)
