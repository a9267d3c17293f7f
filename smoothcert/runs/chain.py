"""A chain of checksums through the rows of a part: an edited, moved, inserted or lost row breaks it.

The last column of a row, `check`, is the beginning of the SHA-256 of the check of the row before and the other cells.
It finds accidents and careless edits. It is no signature: whoever writes all rows anew can also chain them anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from smoothcert.runs.rows import CHECK, Lines


def first_link(identity: Mapping[str, Any], part: str) -> str:
    """What the first row of a part is chained to: the settings of the store, but for `max`, which may still grow."""
    settings = {name: value for name, value in identity.items() if name != "max"}
    return _digest(json.dumps([part, settings], sort_keys=True, separators=(",", ":")))


def next_link(previous: str, row: str) -> str:
    """The check of a row, given as its other cells, joined by tabs."""
    return _digest(f"{previous}\t{row}")


def last_link(lines: Lines, identity: Mapping[str, Any]) -> str:
    """What the next row of a part is chained to."""
    return lines.fields[-1][-1] if lines.fields else first_link(identity, lines.path.stem)


def broken_rows(lines: Lines, identity: Mapping[str, Any]) -> Iterator[int]:
    """The rows of a part whose check is not that of their cells and of the row before."""
    previous = first_link(identity, lines.path.stem)
    for row, fields in enumerate(lines.fields):
        if fields[-1] != next_link(previous, "\t".join(fields[:-1])):
            yield row
        previous = fields[-1]


def chained(lines: Lines) -> bool:
    """Whether the part has the column at all: older versions wrote none."""
    return lines.header[-1] == CHECK


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
