"""How a run looks: the same method has the same colour in every chart, page and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smoothcert.report.read.certificates import Certificates

METHODS = (
    "gaussian", "stability", "smoothadv", "macer", "consistency", "smoothadv-consistency", "smoothmix", "catrs",
)  # fmt: skip
# One for each method. Near Okabe and Ito's colours, moved apart until every two differ by at least 22 in CIELAB for
# normal, protan, deutan and tritan eyes, and each has a contrast of 2.9 with the paper; a test keeps it so.
COLOURS = ("#222222", "#599ae7", "#b22400", "#0f7b4a", "#184396", "#943a74", "#be869b", "#d38400")
DARK_COLOURS = ("#f2f2f2", "#a9c3ff", "#d97933", "#3ee496", "#2e7cc3", "#dc2165", "#b99aae", "#f1b51a")
DASHES = ("", "7 3", "3 2.5", "9 3 2 3", "14 4")

# How folders of the field's releases call the methods.
_ALIASES = {name: name for name in METHODS} | {
    "cohen": "gaussian", "stab": "stability", "salman": "smoothadv", "cat-rs": "catrs",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """Colour and dashes of a line, as places in `COLOURS` and `DASHES`."""

    colour: int
    dash: int = 0


def method_of(c: Certificates) -> str | None:
    """The training method: from config.yaml, else by the name of the run or the folders it lies in."""
    if c.config is not None:
        method = c.config.get("method")
        settings = method if isinstance(method, dict) else {"name": method}
        if (settings.get("name"), settings.get("base")) == ("consistency", "smoothadv"):
            return "smoothadv-consistency"
        return str(settings["name"]) if settings.get("name") else None
    return _recognised(c.name.split("/")) or _recognised(c.source.parts)


def run_looks(results: Sequence[Certificates]) -> list[Look]:
    """The colour of each run by its method, the dashes by how many runs before it have that colour.

    Other methods, and runs whose method is not known, take the colours that are left, in order.
    """
    return looks_of([method_of(c) or c.name for c in results])


def looks_of_names(names: Sequence[str]) -> list[Look]:
    """The same for runs that are known by name alone."""
    return looks_of([_recognised([name]) or name for name in names])


def looks_of(keys: Sequence[str]) -> list[Look]:
    """A look for each key: methods have their own colours, other keys those that are left."""
    colours = {key: METHODS.index(key) for key in keys if key in METHODS}
    others = list(dict.fromkeys(key for key in keys if key not in METHODS))
    free = [colour for colour in range(len(COLOURS)) if colour not in colours.values()] or list(range(len(COLOURS)))
    colours |= {key: free[place % len(free)] for place, key in enumerate(others)}
    seen: dict[int, int] = {}
    looks = []
    for key in keys:
        colour = colours[key]
        looks.append(Look(colour, seen.get(colour, 0) % len(DASHES)))
        seen[colour] = seen.get(colour, 0) + 1
    return looks


def _recognised(parts: Sequence[str]) -> str | None:
    """The last part that names a method; `consistency/cohen` and `consistency/salman_...` name two at once."""
    found = [(place, method) for place, part in enumerate(parts) if (method := _alias(part))]
    if not found:
        return None
    place, method = found[-1]
    if place > 0 and _alias(parts[place - 1]) == "consistency":
        return "smoothadv-consistency" if method == "smoothadv" else "consistency"
    return method


def _alias(part: str) -> str | None:
    """`cat_rs`, `macer_deferred30`, `salman_255.0_10_10`, `smoothmix-0.50`: the method such a part starts with."""
    name = part.lower().replace("_", "-")
    fits = [alias for alias in _ALIASES if name == alias or name.startswith(f"{alias}-")]
    return _ALIASES[max(fits, key=len)] if fits else None
