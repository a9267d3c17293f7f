"""The import graph of the package: who imports whom, and a picture of it.

    python docs/imports.py        writes docs/images/imports.svg

The order of the rooms is that of the picture in docs/design.md; tests/test_layout.py checks both against the code.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "smoothcert"
GROUND = "ground floor"


def rooms() -> list[list[str]]:
    """The lines of the layout in design.md, from the ground floor up; each names one room or more."""
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    block = re.search(r"```\nsmoothcert/\n(.*?)```", text, re.DOTALL)
    assert block is not None, "docs/design.md has no picture of the layout"
    lines = [
        line.strip().split("  ")[0] for line in block[1].splitlines() if re.match(r"  \w", line)
    ]
    return [[word.rstrip("/") for word in line.split()] for line in lines]


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Every module of the package that a module imports: absolute or relative, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join(
                    [*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])]
                )
            found |= {
                inner if (inner := f"{base}.{alias.name}") in known else base
                for alias in node.names
            }
    return {module for module in found if module in known and module != name}


def graph() -> dict[str, set[str]]:
    """Module -> modules; the package's own `__init__` only lends names, and stands outside."""
    known = modules()
    found = {
        name: imports_of(name, path, known) for name, path in known.items() if name != PACKAGE.name
    }
    return {name: targets - {PACKAGE.name} for name, targets in found.items()}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1]


def room_graph() -> dict[str, set[str]]:
    """Room -> rooms that it imports."""
    found: dict[str, set[str]] = {}
    for name, targets in graph().items():
        found.setdefault(room_of(name), set()).update(room_of(target) for target in targets)
    return {room: targets - {room} for room, targets in found.items()}


def picture() -> str:
    """An arc for each pair of rooms, from the one that imports up to the one that is imported."""
    lines = rooms()
    ground, upper = set(lines[0]), [room for line in lines[1:] for room in line]
    order = [GROUND, *upper]
    place = {room: 34 + 34 * i for i, room in enumerate(order)}
    edges = {
        (room if room not in ground else GROUND, target if target not in ground else GROUND)
        for room, targets in room_graph().items()
        for target in targets
        if room in ground or room in place
    }
    width, height, left = 540, 34 * len(order) + 40, 190
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="14">',
        "<title>Imports between the packages of smoothcert: every arc leads upwards</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for source, target in sorted(
        edges, key=lambda edge: (order.index(edge[0]), order.index(edge[1]))
    ):
        if source == target:
            continue
        below, above = place[source], place[target]
        bend = left + 24 + 0.72 * (below - above)
        colour = "#c9ced6" if target == GROUND else "#3b6ea8"
        out.append(
            f'<path d="M{left} {below}C{bend:.0f} {below} {bend:.0f} {above} {left} {above}" fill="none" '
            f'stroke="{colour}" stroke-width="1.2" opacity="0.75"/>'
        )
    for room in order:
        text = "errors, keys, files, ..." if room == GROUND else room
        out.append(f'<circle cx="{left}" cy="{place[room]}" r="4" fill="#1d3557"/>')
        out.append(
            f'<text x="{left - 12}" y="{place[room] + 5}" text-anchor="end" fill="#1d3557">{text}</text>'
        )
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    target = DOCS / "images" / "imports.svg"
    target.write_text(picture(), encoding="utf-8")
    print(f"wrote {target}")
