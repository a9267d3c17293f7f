"""Whether the rows of a part are chained as they were written: edited, moved, inserted and lost rows break the chain.

It finds accidents and careless edits. It is no signature: whoever writes all rows anew can also chain them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from smoothcert.runs.rows import CHECK, Lines
from smoothcert.runs.store import first_link, next_link
from smoothcert.verification.verdict import Verdict

_CHAINED = ("noise_seed", "behaviour")  # written by no version that did not chain its rows


def check_chain(verdict: Verdict, lines: Lines, identity: Mapping[str, Any]) -> None:
    if not lines.fields:
        return
    if lines.header[-1] != CHECK:
        if newer := [name for name in _CHAINED if name in identity]:
            verdict.problems.append(
                f"{lines.path.name}: the column {CHECK} was cut off: versions that write {newer[0]} chain their rows"
            )
        else:
            verdict.notes.append(f"{lines.path.name}: no chain (written by an older version)")
        return
    for row in broken_rows(lines, identity):
        first = "or the manifest was changed, " if row == 0 else ""
        verdict.problems.append(
            f"{lines.path.name}, line {lines.numbers[row]}, input {lines.fields[row][0]}: the chain is broken here: "
            f"the row was edited or moved, {first}or a row before it was lost or put in"
        )


def broken_rows(lines: Lines, identity: Mapping[str, Any]) -> Iterator[int]:
    """The rows whose check is not that of their cells and of the row before."""
    previous = first_link(identity, lines.path.stem)
    for row, fields in enumerate(lines.fields):
        if fields[-1] != next_link(previous, "\t".join(fields[:-1])):
            yield row
        previous = fields[-1]
