"""Every row of a store against its manifest and its own counts: no radius is believed that they do not prove."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import StoreError
from smoothcert.report.read.certificates import law_of
from smoothcert.report.read.votes import BadCounts, Integers, Votes, read_votes
from smoothcert.runs.chain import require_chain
from smoothcert.runs.rows import Column, Lines
from smoothcert.runs.rules import Rules, read_rules, require_columns
from smoothcert.runs.store import Manifest
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.procedure import ABSTAIN, Procedure
from smoothcert.statistics.replay import bound_claims, radius_claims
from smoothcert.statistics.stopping import RadiusTests, RepeatedBounds, Stopping, describe

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
        """Refuse a number that is not the recomputed one, which may be nan."""
        stored, margin = self[name], value + scale
        near = (stored <= value + UP * margin) & (stored >= value - DOWN * margin)
        sound = near | (np.isnan(stored) & np.isnan(value))
        self.require(name, sound, lambda row: f"{value[row]:.9g}, as its counts prove")


def check_rows(lines: Lines, columns: Mapping[str, Column], manifest: Manifest) -> None:
    """Refuse the first row that contradicts the manifest or its own counts, and what verify refuses of a manifest."""
    place = lines.path.parent / "manifest.json"
    rules = read_rules(manifest, str(place))
    require_columns(lines)
    part = _Part(lines, columns)
    off = (part["idx"] - rules.inputs.start) % rules.inputs.step
    inside = (off == 0) & (part["idx"] >= rules.inputs.start) & (part["idx"] < rules.inputs.stop)
    chosen = f"from {rules.inputs.start} on every {rules.inputs.step}"
    part.require("idx", inside, f"one of {len(rules.inputs)} inputs, {chosen}")
    for name, value in (("noise", rules.noise), ("seed", rules.seed)):
        part.require(name, part[name] == str(value), f"{value}, as in the manifest")
    for name in ("label", "predict"):
        part.require(name, part[name] < rules.classes, f"a class below {rules.classes}")
    votes, test = _votes(part, rules.classes), _test(rules, manifest.identity, place)
    _check_samples(part, votes, rules, test.looks)
    _check_claims(part, votes, rules, test)
    require_chain(lines, manifest.identity, "restore the file from a copy, or certify again")


def _test(rules: Rules, identity: Mapping[str, Any], place: Path) -> Stopping:
    """When sampling stopped, if the number of samples was not fixed in advance; by no other rules than those here."""
    budget, law = (rules.n0, rules.n, rules.alpha, rules.tau), law_named(law_of(rules.noise))
    radii, tolerance = identity.get("radii"), identity.get("tolerance")
    test = Procedure(law, rules.sigma, *budget, radii, tolerance).stopping
    for name, rule in describe(test).items():
        if (found := identity.get(name, "fixed")) != rule:
            raise StoreError(
                f"{place}: certified by a procedure with {name} {found}, here it is {rule}; read it with the version "
                "of smoothcert that made it"
            )
    return test


def _votes(part: _Part, classes: int) -> Votes:
    try:
        votes = read_votes(part["counts0"], part["counts"])
    except BadCounts as bad:
        found = f"'{part['counts0'][bad.row]}' and '{part['counts'][bad.row]}'"
        expected = (
            "columns counts0 and counts: expected class:count,class:count,... with rising classes"
        )
        raise part.lines.error(bad.row, f"{expected}, found {found}") from None
    part.require("counts", votes.highest < classes, f"classes below {classes}, as in counts0")
    return votes


def _check_samples(part: _Part, votes: Votes, rules: Rules, looks: Sequence[int]) -> None:
    """The numbers of samples are those of the counts, and those of the procedure."""
    skipped = (votes.selected != part["label"]) & rules.skip_wrong
    part.require("counts0", votes.n0 == rules.n0, f"{rules.n0} answers")
    part.require(
        "counts", ~skipped | (votes.n == 0), "no answers, since a wrong class was selected"
    )
    part.require(
        "counts", skipped | np.isin(votes.n, looks), f"{' or '.join(map(str, looks))} answers"
    )
    for name, counted in (("n0", votes.n0), ("n", votes.n)):
        told = np.zeros(len(counted), bool)
        for number in np.unique(counted):  # few: 0 and the looks
            told |= (counted == number) & (part[name] == str(number))
        part.require(name, told, f"the sum of {name.replace('n', 'counts')}")


def _check_claims(part: _Part, votes: Votes, rules: Rules, test: Stopping) -> None:
    """Class, bound and radii are those that the counts prove."""
    predict, radius, law = part["predict"], part["radius"], law_named(law_of(rules.noise))
    abstains, sampled = predict == ABSTAIN, votes.n > 0
    part.require(
        "predict",
        abstains | (predict == votes.selected),
        lambda row: f"{votes.selected[row]} or -1, by counts0",
    )
    part.require("predict", abstains | sampled, "-1 for an input without estimation samples")
    if isinstance(test, RadiusTests):
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
        proved = law.radius(p, rules.sigma)
    else:
        p = _lower_bound(votes.top, rules.n, rules.alpha, rules.tau)
        proved = law.radius(p, rules.sigma)
    part.require("predict", abstains | (p >= 0.5 - UP), "-1: its counts prove no class")
    part.require(
        "predict",
        ~abstains | (p <= 0.5 + UP),
        lambda row: f"{votes.selected[row]}, as its counts prove",
    )
    part.require("radius", ~abstains | (radius == 0), "0 for an abstention")
    part.require_near("radius", np.where(abstains, 0.0, proved), rules.sigma)
    part.require_near("p_lower", p, 0.0)
    multiclass = np.full(len(p), np.nan)  # of inputs that were not sampled to the end
    if test.looks == (rules.n,):
        p_a = _lower_bound(votes.top, rules.n, rules.split * rules.alpha, rules.tau)
        level = (1.0 - rules.split) * rules.alpha
        p_b = 1.0 - _lower_bound(rules.n - votes.other, rules.n, level, rules.tau)
        multiclass = np.where(sampled, law.multiclass_radius(p_a, p_b, rules.sigma), multiclass)
    part.require_near("multiclass_radius", multiclass, rules.sigma)


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
