"""A drawing as a figure for a paper: PDF or PNG by matplotlib, SVG by our own drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from smoothcert.errors import ConfigError, MissingExtra
from smoothcert.files import atomic_write, write_text
from smoothcert.report.charts.chart import Chart, chart_svg
from smoothcert.report.charts.drawings import Scene, draw
from smoothcert.report.charts.line_styles import COLOURS, DASHES
from smoothcert.report.charts.svg import BAND
from smoothcert.report.read.attacks import Attacks
from smoothcert.report.read.certificates import Certificates

FORMATS = (".pdf", ".png", ".svg")
# How matplotlib sets what the labels of axes have.
_MATH = {
    "ℓ₁": "$\\ell_1$",
    "ℓ₂": "$\\ell_2$",
    "ℓ∞": "$\\ell_\\infty$",
    "radius r": "radius $r$",
    "confidence p": "confidence $p$",
    "≥ p": "≥ $p$",
}


def save_figure(
    results: Sequence[Certificates],
    path: str | Path,
    *,
    drawing: str = "accuracy",
    title: str = "",
    rounded: bool = False,
    attacks: Sequence[Attacks] = (),
    reference: str | None = None,
    size: tuple[float, float] = (5.5, 3.4),
) -> None:
    """Write a drawing of the runs (`drawings.DRAWINGS`) to `path`; its ending says the format, `size` is in inches.

    Colours and dashes are those of the page. The same results give the same bytes.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise ConfigError(f"{path}: a figure ends in {', '.join(FORMATS)}, found '{path.suffix}'; choose one of them")
    chart = draw(drawing, Scene(results, rounded, attacks, reference))
    if kind == ".svg":
        write_text(path, chart_svg(replace(chart, title=title or chart.title)))
    else:
        _by_matplotlib(chart, path, title, size)


def _by_matplotlib(chart: Chart, path: Path, title: str, size: tuple[float, float]) -> None:
    kind = path.suffix.lower()[1:]
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter
    except ImportError:
        raise MissingExtra("matplotlib", "figures", f"a figure as {kind.upper()}") from None
    figure = Figure(figsize=size, layout="constrained")  # no pyplot: no window, no global state
    axes = figure.add_subplot()
    for line in chart.lines:
        dashes = [float(length) for length in DASHES[line.style.dash].split()]
        marks = {"linestyle": "", "marker": "o"} if line.dots else {"linestyle": (0, dashes) if dashes else "-"}
        colour = COLOURS[line.style.colour]
        axes.plot(line.x, line.y, color=colour, linewidth=1.3, label=_plain(line.label), **marks)
        if line.band is not None and line.dots:
            axes.vlines(line.x, *line.band, color=colour, linewidth=1.3)
        elif line.band is not None:
            axes.fill_between(line.x, *line.band, color=colour, alpha=BAND, linewidth=0)
    x_label, y_label = map(_formulas, chart.labels)
    axes.set(xlim=chart.frame.x, ylim=chart.frame.y, xlabel=x_label, ylabel=y_label, title=title)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: chart.frame.y_format(y)))
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if chart.frame.y[0] < 0 < chart.frame.y[1]:
        axes.axhline(0.0, color="#555555", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", handlelength=2.6)
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    with atomic_write(path) as file:
        figure.savefig(file, format=kind, dpi=200, metadata=metadata)


def _formulas(label: str) -> str:
    label = _plain(label)
    for text, formula in _MATH.items():
        label = label.replace(text, formula)
    return label


def _plain(name: str) -> str:
    """A name as matplotlib takes it: a dollar sign begins no formula."""
    return name.replace("$", r"\$")
