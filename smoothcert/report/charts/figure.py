"""The certified-accuracy curves as a figure for a paper: PDF or PNG by matplotlib, SVG by our own drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smoothcert.errors import ConfigError, MissingExtra
from smoothcert.files import atomic_write, write_text
from smoothcert.report.charts.curves import axis_top, curve_name, curve_svg, step_corners
from smoothcert.report.charts.line_styles import COLOURS, DASHES, run_styles
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of, norm_names

FORMATS = (".pdf", ".png", ".svg")
_MATH_NORMS = {"l1": "$\\ell_1$", "l2": "$\\ell_2$", "linf": "$\\ell_\\infty$"}


def save_figure(
    results: Sequence[Certificates],
    path: str | Path,
    *,
    title: str = "",
    rounded: bool = False,
    size: tuple[float, float] = (5.5, 3.4),
) -> None:
    """Write the curves of the runs to `path`; its ending says the format, `size` is in inches.

    Colours and dashes are those of the page. The same results give the same bytes.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise ConfigError(f"{path}: a figure ends in {', '.join(FORMATS)}, found '{path.suffix}'; choose one of them")
    if not results:
        raise ConfigError("a figure needs at least one run, found none")
    if kind == ".svg":
        write_text(path, curve_svg(results, title=title or None, rounded=rounded))
        return
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError:
        raise MissingExtra("matplotlib", "figures", f"a figure as {kind[1:].upper()}") from None
    figure = Figure(figsize=size, layout="constrained")  # no pyplot: no window, no global state
    axes = figure.add_subplot()
    labels = labels_of(results)
    for c, label, style in zip(results, labels, run_styles(results), strict=True):
        dashes = [float(length) for length in DASHES[style.dash].split()]
        line = {"linestyle": (0, dashes) if dashes else "-"}
        marks = line if c.tested_radii is None else {"linestyle": "", "marker": "o"}
        axes.plot(*step_corners(c, rounded), color=COLOURS[style.colour], linewidth=1.3, label=label, **marks)
    right, top = axis_top(results)
    radius = f"radius $r$ ({norm_names((c.norm for c in results), _MATH_NORMS)})"
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=radius, ylabel=curve_name(results), title=title)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", handlelength=2.6)
    metadata = {"CreationDate": None} if kind == ".pdf" else {"Software": None}
    with atomic_write(path) as file:
        figure.savefig(file, format=kind[1:], dpi=200, metadata=metadata)
