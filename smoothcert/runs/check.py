"""The one judge of stored certificates: is each row whole, and does it claim only what its counts prove?

Whoever believes a store asks here: report, merge, certify before it adds rows, attack and status
refuse the first problem, and verify lists all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import StoreError
from smoothcert.progress import noun
from smoothcert.runs import formulas
from smoothcert.runs.chain import edited_rows
from smoothcert.runs.checks import checks_in_words, read_checks
from smoothcert.runs.counts import BadCell, read_counts, read_paths, within_flips
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.rows import Column, Lines, read_lines, typed_columns
from smoothcert.runs.seeds import seed_of_store
from smoothcert.runs.store import ResultStore
from smoothcert.statistics.procedure import ABSTAIN

ROUNDING, WEAKER = 1e-9, 1e-4
"""How far a stored radius may exceed the proven one, and fall short of it unsaid, relative to it and
to sigma. Versions of SciPy, and CPUs, round differently."""

_AGAIN = "delete the file, and the same command makes its rows again"
_TIME = re.compile(r"\d{1,9}:[0-5]\d:[0-5]\d(\.\d{1,12})?", re.ASCII)
_EVIDENCE = ("label", "predict", "radius", "counts0", "counts", "path")

Answers = NDArray[np.bool_]


@dataclass
class Checked:
    """The rows of a store, each input once and in order, and what is wrong with them.

    `columns` are those of the rows, and of the evidence: `looks` [inputs, looks] is the path as
    numbers, -1 at looks that were not reached, and `other` the largest count of another class.
    `problems` are what no sound store has, with file and line; `missing` is not done yet.
    """

    folder: Path
    manifest: Manifest
    parts: list[Lines]
    columns: dict[str, Column] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # file and line of each row

    @property
    def inputs(self) -> range:
        return self.manifest.indices

    @property
    def rows(self) -> int:
        return len(self.places)

    @property
    def missing(self) -> list[int]:
        done = set(self.columns["idx"].tolist()) if self.columns else set()
        return [index for index in self.inputs if index not in done]

    def require(self, advice: str) -> Checked:
        """An error if there is any problem."""
        if self.problems:
            more = f" ({len(self.problems)} problems)" if len(self.problems) > 1 else ""
            raise StoreError(f"{self.folder} is damaged{more}: {self.problems[0]}; {advice}")
        return self


def require_sound(folder: Path, advice: str) -> Checked:
    """Refuse a store that is not as it was written, or that no certification can have written."""
    return check_store(folder).require(advice)


def check_store(folder: Path) -> Checked:
    """All that its own files tell. An error if its manifest describes no certification."""
    store = ResultStore(folder)
    # before the manifest, where others write that there will be more inputs before they add rows
    parts, unreadable = read_parts(store)
    found = check_parts(folder, store.manifest(), parts)
    found.problems[:0] = unreadable
    try:
        if any(line["differ"] for line in read_checks(folder)):
            found.notes.append(f"{checks_in_words(folder)}: rounding may decide a single vote")
    except StoreError as error:
        found.problems.append(str(error))
    if found.manifest.certified.seed is not None:
        found.notes.append(f"the seed {found.manifest.certified.seed} was chosen by hand")
    return found


def read_parts(store: ResultStore) -> tuple[list[Lines], list[str]]:
    """The parts, and what is wrong with those that cannot be read."""
    parts, problems = [], []
    for path in store.part_paths():
        try:
            part = read_lines(path, store.columns)
            if part.texts and part.header != list(store.columns):
                raise StoreError(f"{path} does not start with the header of such a store")
            parts.append(part)
        except StoreError as error:
            problems.append(f"{error}; {_AGAIN}")
    return parts, problems


def check_parts(folder: Path, manifest: Manifest, parts: Sequence[Lines]) -> Checked:
    """The rows of these files, as rows of one store."""
    found = Checked(folder, manifest, list(parts))
    found.problems += _about_manifest(manifest)
    readable = []
    for part in parts:
        if part.torn:
            found.notes.append(f"{part.path.name}: an unfinished last line was left out")
        if not part.texts:
            continue
        try:
            columns = _columns(part, manifest)
        except StoreError as error:
            found.problems.append(str(error))
            continue
        readable.append((part, columns))
        for name, sound, expected in _conditions(part, columns, manifest):
            for row in np.flatnonzero(~sound).tolist():
                text = expected if isinstance(expected, str) else expected(row)
                found.problems.append(
                    f"{_place(part, row, folder)}: {_cell(part, row, name)}{text}"
                )
        weak = columns.pop("weak")
        if weak.any():
            rows = f"{weak.sum()} rows claim" if weak.sum() > 1 else "1 row claims"
            found.notes.append(
                f"{rows} less than proven, first {_place(part, int(weak.argmax()), folder)}"
            )
    if len({bool((columns["label"] < 0).any()) for _, columns in readable}) > 1:
        found.problems.append("some parts have labels and others none: they are of different data")
    _join(found, readable)
    return found


def _about_manifest(manifest: Manifest) -> Iterator[str]:
    """What its entries cannot say together."""
    of = manifest.certified
    for entry, fine in (
        ("noise_seed", of.noise_seed == seed_of_store(manifest.identity, of.model, of.data)),
        ("max", manifest.inputs <= (of.max or manifest.inputs)),
    ):
        if not fine:
            yield (
                f"{manifest.place}: no certification can have {entry} "
                f"{getattr(of, entry)!r} here; restore it from a copy"
            )


def _columns(part: Lines, manifest: Manifest) -> dict[str, Column]:
    """The cells as numbers, and what follows from the counts."""
    columns, rules = typed_columns(part), manifest.procedure
    of = part.columns()
    try:
        first, second = read_counts(of["counts0"]), read_counts(of["counts"])
        looks = read_paths(of["path"], len(rules.stopping.looks))
    except BadCell as bad:
        raise part.error(
            bad.row, "expected counts as class:count,class:count with rising classes, and a path"
        ) from None
    selected = first.top()
    columns |= {"time": np.array(of["time"], object), "path": np.array(of["path"], object)}
    return columns | {
        "looks": looks,
        "selected": selected,
        "other": second.largest_but(selected),
        "n0": first.total(),
        "n": second.total(),
        "top": second.of(selected),
        "highest": np.maximum(first.highest(), second.highest()),
    }


Condition = tuple[str, Answers, str | Callable[[int], str]]


def _conditions(part: Lines, c: dict[str, Column], manifest: Manifest) -> Iterator[Condition]:
    """Column, whether each row is sound, and what was expected."""
    of, rules = manifest.certified, manifest.procedure
    looks, selected, predict = c["looks"], c["selected"], c["predict"]
    edited = np.isin(np.arange(len(predict)), list(edited_rows(part, manifest)))
    yield "check", ~edited, "that of this row under this manifest: one of them was edited or moved"
    place, off = np.divmod(c["idx"] - manifest.indices.start, manifest.indices.step)
    inside = (off == 0) & (place >= 0) & (place < manifest.inputs)
    yield "idx", inside, f"one of the {manifest.inputs} inputs of the manifest"
    yield "label", c["label"] < of.classes, f"one of {of.classes} classes"
    times = [bool(_TIME.fullmatch(time)) for time in c["time"]]
    yield "time", np.array(times, bool), "hours:minutes:seconds"
    yield "counts0", c["n0"] == rules.n0, f"{rules.n0} answers"
    taken = (looks >= 0).sum(1)
    sizes = np.array([0, *rules.stopping.looks])
    yield "counts", c["n"] == sizes[taken], "as many answers as its path has looks for"
    skipped = (selected != c["label"]) & rules.skip_wrong
    yield "counts", (taken == 0) == skipped, "none where a wrong class was selected, else some"
    yield "counts", c["highest"] < of.classes, f"classes below {of.classes}"
    rises = np.diff(looks, axis=1, prepend=0)
    fits = ((rises >= 0) & (rises <= np.diff(sizes))) | (looks < 0)
    ends = np.take_along_axis(looks, np.maximum(taken - 1, 0)[:, None], 1)[:, 0]
    ended = (taken == 0) | (ends == c["top"])
    yield "path", fits.all(1) & ended, "the counts of the selected class at its looks"
    claimed, radius = predict != ABSTAIN, c["radius"]
    yield "predict", ~claimed | (predict == selected), lambda row: f"{selected[row]}, by counts0"
    yield "radius", claimed | (radius == 0), "0 for an abstention"
    tau = 0.0 if of.noise == "float" else formulas.tau_of(of.sigma, of.dimension)
    fine = formulas.proved(rules, tau, looks, radius * (1 - ROUNDING))
    yield "radius", ~claimed | fine, "what its counts prove, at most"
    if rules.radii is not None:
        yield "radius", ~claimed | np.isin(radius, rules.radii), "one of the tested radii"
        c["weak"] = np.zeros(len(radius), bool)
    else:
        more = np.where(claimed, radius * (1 + WEAKER) + WEAKER * rules.sigma, WEAKER * rules.sigma)
        c["weak"] = formulas.proved(rules, tau, looks, more)


def _join(found: Checked, parts: Sequence[tuple[Lines, dict[str, Column]]]) -> None:
    """Each input once. Rows of one input agree if rounding explains what differs in their counts;
    then they count once, and the weaker claim stands."""
    if not parts:
        return
    owners: list[tuple[Lines, int]] = [
        (part, row) for part, columns in parts for row in range(len(columns["idx"]))
    ]
    whole = {name: np.concatenate([c[name] for _, c in parts]) for name in parts[0][1]}
    _, first, which = np.unique(whole["idx"], return_index=True, return_inverse=True)
    looks = found.manifest.procedure.stopping.looks
    again = np.flatnonzero(np.arange(len(which)) != first[which])
    differing = 0
    for row in again:
        there = int(first[which[row]])
        one, other = ({name: whole[name][at] for name in _EVIDENCE} for at in (there, row))
        if one == other:
            continue
        if one["label"] != other["label"] or not within_flips(one, other, looks):
            a, b = (_place(*owners[at], found.folder) for at in (there, row))
            found.problems.append(f"{b}: another result than {a}")
            continue
        differing += 1
        weaker = min((one, other), key=lambda claim: (claim["predict"] != ABSTAIN, claim["radius"]))
        if ABSTAIN not in (one["predict"], other["predict"]) and one["predict"] != other["predict"]:
            weaker = {"predict": ABSTAIN, "radius": 0.0, "label": one["label"]}
        for name in ("predict", "radius"):
            whole[name][there] = weaker[name]
        whole["correct"][there] = weaker["predict"] == weaker["label"] != -1
    if len(again):
        twice = (
            f"{len(again)} {noun(len(again), 'row was', 'rows were')} made twice, and count once"
        )
        flips = f"; {differing} differ as rounding explains" if differing else ""
        found.notes.append(twice + flips)
    found.columns = {name: column[first] for name, column in whole.items()}
    kept = [owners[row] for row in first]
    found.places = [_place(part, row, found.folder) for part, row in kept]


def _place(part: Lines, row: int, folder: Path) -> str:
    index = part.texts[row].split("\t", 1)[0]
    name = part.path.name if part.path.parent == folder else part.path
    return f"{name}, line {part.numbers[row]}, input {index}"


def _cell(part: Lines, row: int, name: str) -> str:
    found = part.fields[row][part.header.index(name)]
    return f"column {name}: found '{found[:60]}', expected "
