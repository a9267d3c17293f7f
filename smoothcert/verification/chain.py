"""Whether the rows of a part are chained as they were written: edited, moved, inserted and lost rows break the chain.

It finds accidents and careless edits. It is no signature: whoever writes all rows anew can also chain them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.runs.chain import broken_rows, cut_off
from smoothcert.runs.rows import CHECK, Lines
from smoothcert.verification.verdict import Verdict


def check_chain(verdict: Verdict, lines: Lines, identity: Mapping[str, Any]) -> None:
    if not lines.fields:
        return
    if lines.header[-1] != CHECK:
        if newer := cut_off(lines, identity):
            verdict.problems.append(
                f"{lines.path.name}: the column {CHECK} was cut off: versions that write {newer} chain their rows"
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
