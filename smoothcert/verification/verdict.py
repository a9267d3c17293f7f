"""What a verification found: in words, for machines, and beside the rows that it is about."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from smoothcert import __version__
from smoothcert.errors import StoreError
from smoothcert.files import write_text
from smoothcert.progress import noun
from smoothcert.runs.verified import RECORD, read_record

Answer = Literal["verified", "differs", "incomplete"]
STATUS: dict[Answer, int] = {"verified": 0, "differs": 1, "incomplete": 3}
"""Exit statuses of `smoothcert verify`; 2 is an error, as of every command."""


@dataclass
class Verdict:
    """About one store. `differ` are the inputs whose counts came out otherwise when they were sampled again."""

    store: Path
    name: str
    fingerprint: str
    inputs: int = 0
    available: int | None = None  # inputs of the data set, where it is here
    rows: int = 0
    missing: list[int] = field(default_factory=list)
    resampled: int = 0
    differ: list[int] = field(default_factory=list)
    elsewhere: bool = False  # sampled again on another kind of device, or by another PyTorch
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def answer(self) -> Answer:
        return "differs" if self.problems else "incomplete" if self.missing else "verified"

    @property
    def text(self) -> str:
        """One line."""
        rows, differ = noun(self.rows, "row"), noun(len(self.differ), "differs", "differ")
        done = f"{self.rows:,} {rows} recomputed, {self.resampled:,} re-sampled, {len(self.differ):,} {differ}"
        done += " on another device or PyTorch" * self.elsewhere
        if self.available is not None and self.inputs < self.available:
            done += f"; {self.inputs:,} of {self.available:,} inputs of the data set"
        if self.problems:
            lost = f", {len(self.missing):,} missing" if self.missing else ""
            return f"DIFFERS: {len(self.problems):,} {noun(len(self.problems), 'problem')} ({done}{lost})"
        if self.missing:
            inputs = f"{noun(self.inputs, 'input')} {noun(len(self.missing), 'is', 'are')}"
            return f"INCOMPLETE: {len(self.missing):,} of {self.inputs:,} {inputs} missing ({done})"
        return f"verified: {done}"

    def values(self) -> dict[str, Any]:
        """For machines."""
        own = {name: value for name, value in vars(self).items() if name != "store"}
        return {"verdict": self.answer, "text": self.text, **own}

    def save(self) -> None:
        """Write the record into the store; a stronger one of the same rows stays, and so does a read-only disk."""
        before = read_record(self.store)
        same = before is not None and before.get("fingerprint") == self.fingerprint
        if (
            same
            and before
            and before.get("verdict") == self.answer
            and not self.resampled
            and before.get("resampled")
        ):
            return
        made = {"smoothcert": __version__, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            write_text(self.store / RECORD, json.dumps({**made, **self.values()}, indent=2) + "\n")
        except StoreError as error:
            self.notes.append(f"the verdict was not kept: {error}")
