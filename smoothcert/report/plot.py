"""How every chart looks, and how it becomes a file or a part of the page. Charts are matplotlib's: change them freely.

    figure = draw("accuracy", Scene(runs)); figure.axes[0].set_xlim(0, 1); figure.savefig("a.pdf")

What a figure shows is also told in words, for who cannot see it: they are its label (`figure.get_label()`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from smoothcert.errors import ConfigError
from smoothcert.files import atomic_write
from smoothcert.progress import printable
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import METHODS, method_of, recognised_method

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.report.measures.analysis import Floats

# One for each method. Near Okabe and Ito's colours, moved apart until every two differ by at least 22 in CIELAB for
# normal, protan, deutan and tritan eyes, and each has a contrast of 2.9 with the paper; a test keeps it so.
COLOURS = ("#222222", "#599ae7", "#b22400", "#0f7b4a", "#184396", "#943a74", "#be869b", "#d38400")
DARK_COLOURS = (
    *("#f2f2f2", "#a9c3ff", "#d97933", "#3ee496"),
    *("#2e7cc3", "#dc2165", "#b99aae", "#f1b51a"),
)
DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.7)),
    (0, (1.7, 1.4)),
    (0, (5, 1.7, 1.1, 1.7)),
    (0, (8, 2)),
)
# coloured as no run is, since the page gives them its own colours
INK, SOFT, GRID, WRONG, PAPER = "#222223", "#555556", "#dddddd", "#aaaaab", "#fffffe"
_VARIABLES = {"ink": INK, "soft": SOFT, "grid": GRID, "wrong": WRONG, "paper": PAPER} | {
    f"run-{place}": colour for place, colour in enumerate(COLOURS)
}
_LOOKS = {
    "font.family": ["DejaVu Sans", "sans-serif"], "font.size": 9, "text.color": INK, "axes.labelcolor": INK,
    "axes.edgecolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "axes.linewidth": 0.8,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.3,
    "legend.frameon": False, "legend.fontsize": "small", "legend.handlelength": 2.6,
    "svg.fonttype": "none", "svg.hashsalt": "smoothcert",
    "path.simplify_threshold": 0.5,  # pixels: curves of 10,000 radii stay small
    "text.parse_math": False,  # names come from anyone
}  # fmt: skip
FORMATS = (".pdf", ".png", ".svg")
_INSIDE, _LONGEST_INSIDE = 8, 45  # so many entries of a legend, and letters, fit among the curves
_LETTER, _LINE = 0.066, 0.18  # inches: the width of a letter, the height of a line of a legend


Marker = Literal["", "dots", "full", "hollow"]


class LineStyle(NamedTuple):
    """Colour and dashes of a line, as places in `COLOURS` and `DASHES`."""

    colour: int
    dash: int = 0


def run_styles(results: Sequence[Certificates]) -> list[LineStyle]:
    """The colour of each run by its method, the dashes by how many runs before it have that colour.

    Other methods, and runs whose method is not known, take the colours that are left, in order.
    """
    return styles_of([method_of(c) or c.name for c in results])


def styles_of_names(names: Sequence[str]) -> list[LineStyle]:
    """The same for runs that are known by name alone."""
    return styles_of([recognised_method([name]) or name for name in names])


def styles_of(keys: Sequence[str]) -> list[LineStyle]:
    """A style for each key: methods have their own colours, other keys those that are left."""
    colours = {key: METHODS.index(key) for key in keys if key in METHODS}
    every = range(len(COLOURS))
    free = [colour for colour in every if colour not in colours.values()] or [*every]
    others = dict.fromkeys(key for key in keys if key not in METHODS)
    colours |= {key: free[place % len(free)] for place, key in enumerate(others)}
    drawn = [colours[key] for key in keys]
    return [
        LineStyle(colour, drawn[:place].count(colour) % len(DASHES))
        for place, colour in enumerate(drawn)
    ]


@contextmanager
def looks() -> Iterator[None]:
    """Every chart is made and written within it: `@looks()`, or `with looks():`."""
    import matplotlib

    usual: dict[Any, Any] = dict(matplotlib.rcParamsDefault)
    del usual["backend"]
    with matplotlib.rc_context(usual | _LOOKS):  # whatever else its user has set
        yield


def new_figure(
    count: int = 1, size: tuple[float, float] | None = None, **more: Any
) -> tuple[Figure, list[Axes]]:
    """Axes side by side. There is no pyplot, and so neither a window nor a state that all share."""
    from matplotlib.figure import Figure

    usual = (5.5, 3.4) if count == 1 else (3.4 * count, 2.9)
    figure = Figure(figsize=size or usual, layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, **more)[0])


def line(
    axes: Axes,
    x: Floats,
    y: Floats,
    label: str,
    style: LineStyle,
    run: int | None = None,
    *,
    marker: Marker = "",
    marked: Sequence[int] | None = None,
    band: tuple[Floats, Floats] | None = None,
) -> None:
    """A line, or its points alone (`dots`), or both, `full` or `hollow`, at all places or at the `marked` ones.

    By `run`, its place in the report, the page shows and hides it. `band` has what the values may be at least and at
    most: an area around the line, or a bar through each point.
    """
    colour = COLOURS[style.colour]
    look: dict[str, Any] = {"color": colour, "linestyle": DASHES[style.dash], "label": label}
    if marker:
        look |= {"marker": "o", "markersize": {"full": 4, "hollow": 7}.get(marker, 6)}
        look |= {"linestyle": ""} if marker == "dots" else {}
        look |= {"markerfacecolor": "none"} if marker == "hollow" else {}
        look |= {} if marked is None else {"markevery": list(marked), "clip_on": False}
    drawn: list[Any] = axes.plot(x, y, **look)
    if band is not None and marker == "dots":
        drawn.append(axes.vlines(x, *band, color=colour, linewidth=1.3))
    elif band is not None:
        drawn.append(axes.fill_between(x, *band, color=colour, alpha=0.15, linewidth=0))
    if run is not None:
        for part in drawn:  # no two ids are alike in a file
            place = axes.figure.axes.index(axes), axes.get_children().index(part)
            part.set_gid(f"run-{run}-" + "-".join(map(str, place)))


def word(
    axes: Axes, text: str, at: tuple[float, float], move: tuple[float, float], **look: Any
) -> None:
    """A small word beside a place, `move` points away from it."""
    axes.annotate(text, at, xytext=move, textcoords="offset points", fontsize="x-small", **look)


def percent(axis: Any) -> None:
    axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")


def shortened(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def legend(figure: Figure) -> None:
    """Among the curves if it is small, else below the charts, which keep their size; each label stands there once."""
    found = {
        str(drawn.get_label()): drawn
        for axes in figure.axes
        for drawn in axes.get_lines()
        if not re.fullmatch(r"_child\d+", str(drawn.get_label()))  # matplotlib's name for no name
    }
    longest = max(map(len, found), default=1)
    if len(figure.axes) == 1 and len(found) <= _INSIDE and longest <= _LONGEST_INSIDE:
        figure.axes[0].legend(found.values(), found)
    elif found:
        width, height = figure.get_size_inches()
        fitting = int((0.95 * width - 0.6) / _LETTER)
        columns = max(int(0.95 * width / (_LETTER * min(longest, fitting) + 0.6)), 1)
        figure.set_size_inches(width, height + _LINE * -(-len(found) // columns))
        labels = [shortened(label, fitting) for label in found]
        figure.legend(found.values(), labels, loc="outside lower center", ncols=columns)


def around(values: Floats) -> tuple[float, float]:
    """The ends of an axis a little wider than the values, never empty; rounding is no difference."""
    low, high = float(values.min()), float(values.max())
    differ = high - low > 1e-9 * max(abs(low), abs(high))
    pad = 0.15 * (high - low) if differ else 0.05 * abs(high) or 0.5
    return low - pad, high + pad


def check_suffix(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"{path}: a figure ends in {', '.join(FORMATS)}, found '{path.suffix}'; choose one of them"
        )


def save(figure: Figure, path: str | Path) -> None:
    """Write it as PDF, PNG or SVG. The same results give the same bytes. Killed, it leaves the old file or the new."""
    path = Path(path)
    check_suffix(path)
    kind = path.suffix.lower()
    _spelt_out(figure)
    with atomic_write(path) as file:
        if kind == ".svg":
            file.write(_svg(figure).encode())
        else:
            about = {"CreationDate": None} if kind == ".pdf" else {"Software": None}
            with looks():
                figure.savefig(file, format=kind[1:], dpi=200, metadata=about)


def inline_svg(figure: Figure, name: str, *, keys: bool = False) -> str:
    """For the page: its colours become the page's variables, so that they change with light and dark.

    Without `keys` the page around it has the legend. `name` makes its ids unique in the page. Where its (first) axes
    stand, and where they end, are `data-` attributes.
    """
    for axes in figure.axes:
        axes.yaxis.label.set_gid("y-label")  # there is no room for it on a telephone
    for shown in () if keys else [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        if shown is not None:
            shown.remove()
    figure.set_size_inches(*(1.3 * figure.get_size_inches()))  # so are words as large as the page's
    _spelt_out(figure)
    text = _svg(figure, transparent=True)
    text = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)

    used = {*re.findall(r'(?:href="#|url\(#)([^")]+)', text)}

    def tag(found: re.Match[str]) -> str:  # names, which come from anyone, stand between tags
        inside = re.sub(r'(?<= )id="run-(\d+)-[^"]*"', r'class="run" data-run="\1"', found[0])
        inside = inside.replace('id="y-label"', 'class="y-label"')
        inside = re.sub(r' id="([^"]*)"', lambda i: i[0] if i[1] in used else "", inside)
        inside = re.sub(r'((?<= )id="|href="#|url\(#)', rf"\g<1>{name}-", inside)
        inside = re.sub(r"font-family: [^;]*; ", "", inside)
        inside = re.sub(r"(\.\d\d)\d+|\n(?=[LMzQ])", r"\1", inside)  # places to .01 points
        for variable, colour in _VARIABLES.items():
            inside = inside.replace(f": {colour}", f": var(--{variable})")
        return inside

    text = re.sub(r"<[^>]*>", tag, text[text.index("<svg") :])
    (left, bottom), (right, top) = figure.axes[0].get_position().get_points().tolist()
    (_, _, width, height) = map(float, re.search(r'viewBox="([^"]*)"', text)[1].split())  # type: ignore[index]
    box = {"left": left * width, "right": right * width, "top": (1 - top) * height}
    box |= {"bottom": (1 - bottom) * height}
    ends = dict(zip(("x-start", "x-top"), figure.axes[0].get_xlim(), strict=True))
    ends |= {"y-top": figure.axes[0].get_ylim()[1]}
    data = " ".join(f'data-{key}="{value:.6g}"' for key, value in (box | ends).items())
    return re.sub(
        r'width="[\d.]+pt" height="[\d.]+pt"',
        lambda found: f'class="smoothcert-chart{" wide" * (len(figure.axes) > 1)}" {data}',
        text,
        count=1,
    )


def key_svg(style: LineStyle, *, dots: bool = False) -> str:
    """What stands for a run in the page's legends: a line, or a point where only some radii were tested."""
    colour, dashes = f"var(--run-{style.colour})", DASHES[style.dash]
    if dots:
        return f'<circle cx="15" cy="4" r="4" style="fill:{colour}"/>'
    dash = "" if dashes == "-" else " ".join(f"{2 * length:g}" for length in dashes[1])
    dashed = f";stroke-dasharray:{dash}" if dash else ""
    return f'<path d="M0 4h30" style="stroke:{colour};stroke-width:2{dashed}"/>'


def _spelt_out(figure: Figure) -> None:
    """Names come from anyone: control characters have no glyphs."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(printable(text.get_text(), kept="\n"))


@looks()
def _svg(figure: Figure, *, transparent: bool = False) -> str:
    """Its words stay words, and what it shows is told to who cannot see it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=transparent)
    told = escape(str(figure.get_label()))
    return buffer.getvalue().replace("<svg ", f'<svg role="img" aria-label="{told}" ', 1)
