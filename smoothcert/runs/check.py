"""Is a store whole, unchanged, and are its claims no more than its counts prove? Whoever believes a store asks here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from smoothcert.errors import StoreError
from smoothcert.runs.chain import chain_problems
from smoothcert.runs.checks import checks_in_words, read_checks
from smoothcert.runs.proved import Rows, check_rows, read_rows
from smoothcert.runs.rows import read_lines
from smoothcert.runs.rules import read_rules
from smoothcert.runs.store import Manifest, ResultStore


@dataclass(frozen=True)
class Checked:
    """`problems` are what no sound store of certificates has, with file, line and input; `missing` is not done yet."""

    store: ResultStore
    manifest: Manifest
    inputs: range
    rows: list[Rows] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[int]:
        done = {index for part in self.rows for index in part.idx.tolist()}
        return [index for index in self.inputs if index not in done]


def check_store(folder: Path) -> Checked:
    """All that its own files tell. An error if its manifest describes no certification."""
    store = ResultStore(folder)
    # before the manifest, where others write that there will be more inputs before they add rows of them
    parts, unreadable = [], []
    for path in store.part_paths():
        try:
            parts.append(read_lines(path, store.columns))
        except StoreError as error:
            unreadable.append(str(error))
    manifest = store.manifest()
    rules = read_rules(manifest, str(folder / "manifest.json"))
    found = Checked(store, manifest, rules.inputs, problems=unreadable)
    for lines in parts:
        try:
            found.rows.append(read_rows(lines))
        except StoreError as error:
            found.problems.append(str(error))
            continue
        problems, notes = check_rows(found.rows[-1], rules)
        found.problems.extend([*chain_problems(lines, manifest.identity), *problems])
        found.notes.extend(notes)
        if lines.torn:
            found.notes.append(f"{lines.path.name}: an unfinished last line was left out")
    if len({bool((part.label < 0).any()) for part in found.rows if len(part.label)}) > 1:
        found.problems.append(
            "some parts have labels and others none: they are about different data"
        )
    _check_indices(found)
    try:
        if any(line["differ"] for line in read_checks(folder)):
            found.notes.append(f"{checks_in_words(folder)}: rounding may decide a single vote")
    except StoreError as error:
        found.problems.append(str(error))
    if manifest.identity.get("seed") is not None:
        found.notes.append(f"the seed {rules.seed} was chosen by hand")
    return found


def require_sound(folder: Path, advice: str) -> Checked:
    """Refuse a store that is not as it was written, or that no certification can have written."""
    found = check_store(folder)
    if found.problems:
        more = f" ({len(found.problems)} problems)" if len(found.problems) > 1 else ""
        raise StoreError(f"{folder} is damaged{more}: {found.problems[0]}; {advice}")
    return found


def _check_indices(found: Checked) -> None:
    """Each input of the manifest once, and no other."""
    seen: dict[int, tuple[str, object]] = {}
    for part in found.rows:
        for row, (place, index) in enumerate(zip(part.places, part.idx.tolist(), strict=True)):
            says = tuple(str(column[row]) for column in part.said)
            if index not in found.inputs:
                found.problems.append(f"{place}: the manifest has no such input")
            if index not in seen:
                seen[index] = place, says
            elif seen[index][1] == says:
                found.notes.append(f"{place}: the same as {seen[index][0]}")
            else:
                found.problems.append(f"{place}: another result than {seen[index][0]}")
