"""Every row of a store against its manifest and its own counts: no radius is believed that they do not prove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.report.read.proof import Proof, possible_radius, proof_of
from smoothcert.report.read.votes import BadCounts, Integers, Votes, read_votes
from smoothcert.runs.rows import Column, Lines
from smoothcert.runs.seeds import seed_in
from smoothcert.runs.store import Manifest
from smoothcert.statistics import bounds
from smoothcert.statistics.certificate import ABSTAIN
from smoothcert.statistics.replay import bound_claims, radius_claims
from smoothcert.statistics.sequential import RadiusTest, RepeatedBounds

UP, DOWN = 1e-9, 1e-4
"""How far a stored number may be above and below the recomputed one, relative to itself and sigma. Versions of SciPy
round differently. A radius that is too small claims nothing false, but one that is far too small was not computed."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Part:
    lines: Lines
    columns: Mapping[str, Column]

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def require(
        self, name: str, sound: NDArray[np.bool_], expected: str | Callable[[int], str]
    ) -> None:
        """Refuse the first row that is not sound."""
        if not sound.all():
            row = int(np.argmin(sound))
            text = expected if isinstance(expected, str) else expected(row)
            found = self.lines.fields[row][self.lines.header.index(name)]
            raise self.lines.error(row, f"column {name}: expected {text}, found '{found}'")

    def require_near(self, name: str, value: Floats, scale: float) -> None:
        """Refuse a number that is not the recomputed one. One that a store made elsewhere lacks claims nothing."""
        if name in self.columns:
            stored, margin = self[name], value + scale
            near = (stored <= value + UP * margin) & (stored >= value - DOWN * margin)
            self.require(
                name, near | np.isnan(stored), lambda row: f"{value[row]:.9g}, as its counts prove"
            )


def check_rows(lines: Lines, columns: Mapping[str, Column], manifest: Manifest) -> list[str]:
    """Refuse the first row that contradicts the manifest or its own counts; returns what could not be checked."""
    part, identity, unchecked = _Part(lines, columns), manifest.identity, []
    start, every, classes = (identity.get(name) for name in ("start", "every", "classes"))
    if isinstance(start, int) and isinstance(every, int) and every > 0:
        place, off = np.divmod(part["idx"] - start, every)
        inside = (off == 0) & (place >= 0) & (place < manifest.inputs)
        part.require(
            "idx", inside, f"one of {manifest.inputs} inputs, from {start} on every {every}"
        )
    else:
        unchecked.append("the index set was not checked: the manifest does not name it")
    keyed = {"noise": identity.get("noise"), "seed": seed_in(identity)}
    for name, value in keyed.items():
        if value is not None and name in columns:
            part.require(name, part[name] == str(value), f"{value}, as in the manifest")
    proof = proof_of(manifest, lines.path.parent)
    if isinstance(classes, int):
        for name in ("label", "predict"):
            part.require(name, part[name] < classes, f"a class below {classes}")
    if isinstance(proof, str):
        limit = possible_radius(manifest, proof, lines.path.parent, "counts" in columns)
        if limit is not None:
            part.require(
                "radius",
                part["radius"] <= limit * 1.005,
                f"at most {limit:.9g}, which equal answers prove",
            )
        return [*unchecked, f"radii were not checked: {proof}"]
    needed = (
        "counts0",
        "counts",
        *(("p_lower",) if isinstance(proof.test, RepeatedBounds) else ()),
    )
    if missing := [name for name in needed if name not in columns]:
        possible = part["radius"] <= proof.limit + UP * (proof.limit + proof.sigma)
        part.require(
            "radius", possible, f"at most {proof.limit:.9g}, which {proof.n} equal answers prove"
        )
        told = f"without {' and '.join(missing)}, radii are only known to be possible (at most {proof.limit:.3f})"
        return [*unchecked, told]
    votes = _votes(part, classes if isinstance(classes, int) else None)
    _check_samples(part, votes, proof)
    _check_claims(part, votes, proof)
    return unchecked


def _votes(part: _Part, classes: int | None) -> Votes:
    try:
        votes = read_votes(part["counts0"], part["counts"])
    except BadCounts as bad:
        found = f"'{part['counts0'][bad.row]}' and '{part['counts'][bad.row]}'"
        expected = (
            "columns counts0 and counts: expected class:count,class:count,... with rising classes"
        )
        raise part.lines.error(bad.row, f"{expected}, found {found}") from None
    if classes is not None:
        part.require("counts", votes.highest < classes, f"classes below {classes}, as in counts0")
    return votes


def _check_samples(part: _Part, votes: Votes, proof: Proof) -> None:
    """The numbers of samples are those of the counts, and those of the procedure."""
    looks = (proof.n,) if proof.test is None else proof.test.looks
    skipped = (votes.selected != part["label"]) & proof.skip_wrong
    part.require("counts0", votes.n0 == proof.n0, f"{proof.n0} answers")
    part.require(
        "counts", ~skipped | (votes.n == 0), "no answers, since a wrong class was selected"
    )
    part.require(
        "counts", skipped | np.isin(votes.n, looks), f"{' or '.join(map(str, looks))} answers"
    )
    for name, counted in (("n0", votes.n0), ("n", votes.n)):
        if name in part.columns:
            told = np.zeros(len(counted), bool)
            for number in np.unique(counted):  # few: 0 and the looks
                told |= (counted == number) & (part[name] == str(number))
            part.require(name, told, f"the sum of {name.replace('n', 'counts')}")


def _check_claims(part: _Part, votes: Votes, proof: Proof) -> None:
    """Class, bound and radii are those that the counts prove."""
    predict, radius, test = part["predict"], part["radius"], proof.test
    abstains, sampled = predict == ABSTAIN, votes.n > 0
    part.require(
        "predict",
        abstains | (predict == votes.selected),
        lambda row: f"{votes.selected[row]} or -1, by counts0",
    )
    part.require("predict", abstains | sampled, "-1 for an input without estimation samples")
    if isinstance(test, RadiusTest):
        part.require(
            "radius",
            abstains | np.isin(radius, test.radii),
            f"one of {', '.join(map(str, test.radii))}",
        )
        passed = np.where(abstains, 0, np.searchsorted(test.radii, radius) + 1)
        p, proved = (
            np.array([0.0, *test.probabilities])[passed],
            np.array([0.0, *test.radii])[passed],
        )
        allowed = ~sampled | radius_claims(
            test, np.searchsorted(test.looks, votes.n), votes.top, passed
        )
        part.require(
            "radius", allowed, lambda row: f"what {votes.top[row]} of {votes.n[row]} samples prove"
        )
    elif isinstance(test, RepeatedBounds):
        p = np.where(sampled, part["p_lower"], 0.0)
        for look, n in enumerate(test.looks):
            rows = votes.n == n
            allowed = np.ones(len(p), bool)
            allowed[rows] = bound_claims(test, look, votes.top[rows], p[rows])
            part.require(
                "p_lower",
                allowed,
                lambda row: f"a bound that {votes.top[row]} of {votes.n[row]} samples allow",
            )
        proved = bounds.radius(p, proof.sigma, proof.law)
    else:
        p = _lower_bound(votes.top, proof.n, proof.alpha, proof.slack)
        proved = bounds.radius(p, proof.sigma, proof.law)
    part.require("predict", abstains | (p >= 0.5 - UP), "-1: its counts prove no class")
    part.require(
        "predict",
        ~abstains | (p <= 0.5 + UP),
        lambda row: f"{votes.selected[row]}, as its counts prove",
    )
    part.require("radius", ~abstains | (radius == 0), "0 for an abstention")
    part.require_near("radius", np.where(abstains, 0.0, proved), proof.sigma)
    part.require_near("p_lower", p, 0.0)
    if test is None:
        p_a = _lower_bound(votes.top, proof.n, proof.split * proof.alpha, proof.slack)
        p_b = 1.0 - _lower_bound(
            proof.n - votes.other, proof.n, (1.0 - proof.split) * proof.alpha, proof.slack
        )
        part.require_near(
            "multiclass_radius",
            bounds.two_class_radius(p_a, p_b, proof.sigma, proof.law),
            proof.sigma,
        )
    if "multiclass_radius" in part.columns:
        known = sampled & (test is None)
        part.require(
            "multiclass_radius",
            known | np.isnan(part["multiclass_radius"]),
            "nan: it was not sampled to the end",
        )


def _lower_bound(count: Integers, n: int, alpha: float, slack: float) -> Floats:
    """`bounds.lower_bound`, but each count is computed once: the runs of a report share n and alpha."""
    table = _bounds_by_count(n, alpha, slack)
    new = np.unique(count[table[count] == 0])
    table[new] = bounds.lower_bound(new, n, alpha, slack)
    return table[count]


@lru_cache(maxsize=12)
def _bounds_by_count(n: int, alpha: float, slack: float) -> Floats:
    return np.zeros(
        n + 1
    )  # filled as counts come; 0 stands for not known, and costs memory only where it is replaced
