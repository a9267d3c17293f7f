"""What was attacked: one `Attacks` per store of `smoothcert attack`, and the certificates that each belongs to."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import StoreError
from smoothcert.progress import noun
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import one_line
from smoothcert.runs.attack_rows import OLDER_COLUMNS, attack_columns, merge_attacks, unlike
from smoothcert.runs.find import attack_stores_of, find_results, is_attack_store
from smoothcert.runs.rows import read_lines
from smoothcert.runs.store import ResultStore

NO_ATTACK = "attack: none"
_NEEDED = ("attack", "steps", "noises", "n", "alpha", "noise", "radii", "sigma", "classes")


@dataclass(frozen=True, eq=False)
class Attacks:
    """The answers of one smoothed classifier to attacked images, one entry per input and radius, ordered by both.

    `predict` is PREDICT's answer, `base_predict` the network's own without noise, and `votes` how many of PREDICT's n
    noisy copies got the label; both are None in stores of older versions. `certified_predict` and `certified_radius`
    are what the store says of certificates, nan where nothing.
    """

    source: Path
    idx: NDArray[np.int64]
    label: NDArray[np.int64]
    radius: NDArray[np.float64]
    distance: NDArray[np.float64]
    predict: NDArray[np.int64]
    correct: NDArray[np.int64]
    certified_predict: NDArray[np.float64]
    certified_radius: NDArray[np.float64]
    identity: dict[str, Any]
    expected: int
    base_predict: NDArray[np.int64] | None = None
    votes: NDArray[np.int64] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.source.resolve().name

    @property
    def run(self) -> str:
        return one_line(self.source.resolve().parent.parent.name)

    @property
    def attack(self) -> str:
        return one_line(str(self.identity["attack"]))[:40]  # anyone could have written it

    @property
    def kind(self) -> str:
        """The attack, and in what it is not the usual one.

        At radius 0 nothing is attacked: a store of it alone says what PREDICT answers, whatever attack it names.
        """
        if not any(self.radii):
            return NO_ATTACK
        beta = self.identity.get("beta", 1.0)
        told = [] if beta == 1 else [f"β={beta:g}"]
        told += ["as printed"] if self.identity.get("as_printed") else []
        return ", ".join([self.attack, *told])

    @property
    def noises(self) -> int | None:
        """Noises that the attack averages over; vanilla PGD has none."""
        return None if self.attack == "vanilla" else int(self.identity["noises"])

    @property
    def steps(self) -> int:
        return int(self.identity["steps"])

    @property
    def n(self) -> int:
        """Noise samples of PREDICT."""
        return int(self.identity["n"])

    @property
    def radii(self) -> list[float]:
        return sorted(set(self.radius.tolist()))

    @property
    def partial(self) -> bool:
        return len(self.idx) < self.expected

    @property
    def inputs(self) -> NDArray[np.int64]:
        """The inputs that were attacked at every radius so far."""
        idx, count = np.unique(self.idx, return_counts=True)
        return np.asarray(idx[count == len(self.radii)])


def read_attacks(folder: str | Path) -> Attacks:
    """Read one store of attacks, complete or still being written."""
    folder = Path(folder)
    manifest = ResultStore(folder).manifest()
    identity = dict(manifest.identity)
    if lost := [name for name in _NEEDED if identity.get(name) is None]:
        raise StoreError(
            f"{folder / 'manifest.json'} lacks settings of an attack ({', '.join(lost)})"
        )
    least = {"n": 1, "steps": 1, "noises": 1, "classes": 2}
    if wrong := [name for name, bound in least.items() if identity[name] < bound]:
        raise StoreError(
            f"{folder / 'manifest.json'}: expected {wrong[0]} of at least {least[wrong[0]]}, found {identity[wrong[0]]}"
        )
    if identity["noise"] not in ("exact", "float"):
        raise StoreError(
            f"{folder / 'manifest.json'}: expected the Gaussian noise of an attack in l2, exact or float, found "
            f"{identity['noise']!r}"
        )
    parts = [read_lines(path, OLDER_COLUMNS) for path in ResultStore(folder).part_paths()]
    if not any(part.texts for part in parts):
        raise NothingAttacked(f"{folder}: no input is attacked yet")
    columns = merge_attacks(
        [attack_columns(part, identity) for part in parts if part.texts], folder
    )
    notes = [f"{part.path.name}: unfinished last line left out" for part in parts if part.torn]
    return Attacks(
        folder, **columns, identity=identity, expected=manifest.inputs, warnings=tuple(notes)
    )


class NothingAttacked(StoreError):
    """Nothing is wrong with the store; it only has no row yet."""


def read_attack_stores(*paths: str | Path) -> list[Attacks]:
    """Those among the places and of the runs there, each once; a store without rows is left out with a warning."""
    found: dict[Path, Attacks] = {}
    for folder in _stores(map(Path, paths)):
        try:
            found[folder.resolve()] = read_attacks(folder)
        except NothingAttacked as error:
            python_warnings.warn(f"left out: {error}", stacklevel=2)
    return list(found.values())


def _stores(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if is_attack_store(path):
            yield path
        elif path.is_dir() and not (path / "manifest.json").is_file():
            for run in [path] if attack_stores_of(path) else find_results(path):
                yield from attack_stores_of(run)


def certificates_of(a: Attacks, results: Sequence[Certificates]) -> Certificates | None:
    """The l2 certificates of the same classifier and images that know most of the attacked inputs; None without any.

    Of several that know as many, those with the most samples, then the first.
    """
    fitting = [c for c in all_certificates_of(a, results) if c.norm == "l2"]
    known = {id(c): int(np.isin(a.inputs, c.idx).sum()) for c in fitting}
    return max(fitting, key=lambda c: (known[id(c)], c.n or 0), default=None)


def all_certificates_of(a: Attacks, results: Sequence[Certificates]) -> list[Certificates]:
    labels = dict(zip(a.idx.tolist(), a.label.tolist(), strict=True))
    return [c for c in results if _same(a, c) and all(labels.get(i, k) == k for i, k in _labels(c))]


def _same(a: Attacks, c: Certificates) -> bool:
    return (c.stored or c).norm == "l2" and c.labelled and not unlike(a.identity, c.identity)


def _labels(c: Certificates) -> Iterable[tuple[int, int]]:
    return zip(c.idx.tolist(), c.label.tolist(), strict=True)


def contradicted(a: Attacks, c: Certificates | None) -> NDArray[np.bool_]:
    """The rows that answer otherwise inside a radius of these certificates, or of those that the attack recorded.

    They count as stored: an alarm does not go when certificates are made anew or analysed again.
    """
    found = _answers_otherwise(a, a.certified_predict, a.certified_radius)
    if c is None:
        return found
    c = c.stored or c
    place = np.searchsorted(c.idx, a.idx).clip(max=c.rows - 1)
    now = _answers_otherwise(a, c.predict[place], c.radius[place])
    return np.asarray(found | ((c.idx[place] == a.idx) & now))


def _answers_otherwise(
    a: Attacks, predict: NDArray[np.float64] | NDArray[np.int64], radius: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Where the answer differs from the certified one inside its radius; nan is in no radius, an abstention no answer.

    A certificate that abstains has radius 0, and nothing is inside it.
    """
    return np.asarray((a.distance < radius) & (a.predict != -1) & (a.predict != predict))


def contradictions(a: Attacks, c: Certificates | None) -> list[str]:
    """What an attack has shown against certificates, in words: one entry for each radius where there is something."""
    hit, found = contradicted(a, c), []
    for radius in a.radii:
        here = a.radius == radius
        inputs, of = a.idx[hit & here].tolist(), int(here.sum())
        if inputs:
            shown = ", ".join(map(str, inputs[:10])) + (", ..." if len(inputs) > 10 else "")
            answer = noun(len(inputs), "answers", "answer")
            found.append(
                f"{a.kind} at radius {radius:g}: {len(inputs)} of {of} {noun(of, 'input')} (idx {shown}) {answer} "
                f"otherwise inside {noun(len(inputs), 'its', 'their')} certified radius"
            )
    return found


def with_alarms(c: Certificates, attacks: Iterable[Attacks]) -> Certificates:
    """The certificates with what these attacks have shown against them, beside what is known already."""
    found = [text for a in attacks if all_certificates_of(a, [c]) for text in contradictions(a, c)]
    return replace(c, alarms=tuple(dict.fromkeys((*c.alarms, *found))))


def attacked_beside(c: Certificates) -> Certificates:
    """The certificates of a store with what the attacks of its run have shown against them, as far as they are read."""
    folder, attacks, notes = c.source.resolve(), [], []
    stores = attack_stores_of(folder.parent.parent) if folder.parent.name == "certify" else []
    for store in stores:
        try:
            if not unlike(ResultStore(store).manifest().identity, c.identity):
                attacks.append(read_attacks(store))
        except NothingAttacked:
            continue
        except StoreError as error:
            notes.append(f"whether attacks contradict it is not known: {error}")
    return with_alarms(replace(c, warnings=(*c.warnings, *notes)), attacks)
