"""The chain of checks of a part, read: which rows do not follow on the row before them as they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.runs.rows import CHECK, Lines
from smoothcert.runs.store import first_link, next_link


def broken_rows(lines: Lines, identity: Mapping[str, Any]) -> Iterator[int]:
    """The rows whose check is not that of their cells and of the row before; none in a part without a chain."""
    if lines.header[-1] != CHECK:
        return
    previous = first_link(identity, lines.path.stem)
    for row, fields in enumerate(lines.fields):
        if fields[-1] != next_link(previous, "\t".join(fields[:-1])):
            yield row
        previous = fields[-1]


def chain_problems(lines: Lines, identity: Mapping[str, Any]) -> Iterator[str]:
    """Which rows are not as they were written."""
    if lines.fields and lines.header[-1] != CHECK:
        yield f"{lines.path.name}: the column {CHECK}, which chains the rows, was cut off"
    for row in broken_rows(lines, identity):
        first = "or the manifest was changed, " if row == 0 else ""
        yield (
            f"{lines.path.name}, line {lines.numbers[row]}, input {lines.fields[row][0]}: the chain is broken here: "
            f"the row was edited or moved, {first}or a row before it was lost or put in"
        )


def require_chain(lines: Lines, identity: Mapping[str, Any], advice: str) -> None:
    """Refuse rows that are not as they were written."""
    for problem in chain_problems(lines, identity):
        raise StoreError(f"{lines.path.parent}/{problem}: {advice}")
