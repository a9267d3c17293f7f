"""How a run is drawn: the same method has the same colour in every chart, page and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import METHODS, method_of, recognised_method

# One for each method. Near Okabe and Ito's colours, moved apart until every two differ by at least 22 in CIELAB for
# normal, protan, deutan and tritan eyes, and each has a contrast of 2.9 with the paper; a test keeps it so.
COLOURS = ("#222222", "#599ae7", "#b22400", "#0f7b4a", "#184396", "#943a74", "#be869b", "#d38400")
DARK_COLOURS = (
    "#f2f2f2",
    "#a9c3ff",
    "#d97933",
    "#3ee496",
    "#2e7cc3",
    "#dc2165",
    "#b99aae",
    "#f1b51a",
)
DASHES = ("", "7 3", "3 2.5", "9 3 2 3", "14 4")


@dataclass(frozen=True)
class LineStyle:
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
    others = list(dict.fromkeys(key for key in keys if key not in METHODS))
    free = [colour for colour in range(len(COLOURS)) if colour not in colours.values()] or list(
        range(len(COLOURS))
    )
    colours |= {key: free[place % len(free)] for place, key in enumerate(others)}
    seen: dict[int, int] = {}
    styles = []
    for key in keys:
        colour = colours[key]
        styles.append(LineStyle(colour, seen.get(colour, 0) % len(DASHES)))
        seen[colour] = seen.get(colour, 0) + 1
    return styles
