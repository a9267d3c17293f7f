"""The chain of checks of a part, read: which rows do not follow on the row before them as they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.runs.rows import CHECK, Lines
from smoothcert.runs.store import first_link, next_link

_CHAINED = ("noise_seed", "behaviour")  # written by no version that did not chain its rows


def cut_off(lines: Lines, identity: Mapping[str, Any]) -> str | None:
    """The entry of the manifest that says that rows without a check had one; None where an older version wrote them."""
    if lines.header[-1] == CHECK:
        return None
    return next((name for name in _CHAINED if name in identity), None)


def broken_rows(lines: Lines, identity: Mapping[str, Any]) -> Iterator[int]:
    """The rows whose check is not that of their cells and of the row before; none in a part without a chain."""
    if lines.header[-1] != CHECK:
        return
    previous = first_link(identity, lines.path.stem)
    for row, fields in enumerate(lines.fields):
        if fields[-1] != next_link(previous, "\t".join(fields[:-1])):
            yield row
        previous = fields[-1]


def require_chain(lines: Lines, identity: Mapping[str, Any], advice: str) -> None:
    """Refuse rows that are not as they were written, before any is added to them or made of them."""
    if lines.fields and (newer := cut_off(lines, identity)):
        raise StoreError(
            f"{lines.path}: the column {CHECK} was cut off: versions that write {newer} chain their rows; {advice}"
        )
    for row in broken_rows(lines, identity):
        raise StoreError(
            f"{lines.path}, line {lines.numbers[row]}: the chain of checks is broken here, so that a row or the "
            f"manifest was edited, or a row was lost: {advice}"
        )
