"""The rows of a store, each with its place, and whether their claims are no more than their counts prove."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.progress import noun
from smoothcert.runs import recompute
from smoothcert.runs.recompute import Array, Whole
from smoothcert.runs.rows import Column, Lines, converted, typed_columns, whole
from smoothcert.runs.rules import Rules
from smoothcert.runs.votes import BadCounts, Votes, read_votes

_MORE = 1e-9  # a claim may exceed the recomputed one by this share: other functions round otherwise
_LESS = 1e-6  # one that is this much smaller is called weaker than it could be

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """The rows of one part, column by column, and what their counts say."""

    places: list[str]  # file, line and input, for messages
    columns: dict[str, Column]
    idx: Whole
    label: Whole
    predict: Whole
    radius: Array
    p_lower: Array
    n0: Whole
    n: Whole
    votes: Votes

    @property
    def said(self) -> list[Column]:
        """The columns in which two rows of one input must agree."""
        return [column for name, column in self.columns.items() if name != "idx"]


def read_rows(lines: Lines) -> Rows:
    """Convert the rows of a part; what cannot be read is an error with file and line."""
    columns = typed_columns(lines)
    places = [
        f"{lines.path.name}, line {n}, input {i}"
        for n, i in zip(lines.numbers, columns["idx"], strict=True)
    ]
    return Rows(
        places,
        columns,
        **{name: columns[name] for name in ("idx", "label", "predict", "radius", "p_lower")},
        **{name: converted(lines, name, whole, columns[name].tolist()) for name in ("n0", "n")},
        votes=votes_of(lines, columns),
    )


def votes_of(lines: Lines, columns: Mapping[str, Column]) -> Votes:
    """What the counts of these rows say; an error with file and line if they are none."""
    try:
        return read_votes(columns["counts0"], columns["counts"])
    except BadCounts as bad:
        found = f"'{columns['counts0'][bad.row]}' and '{columns['counts'][bad.row]}'"
        expected = (
            "columns counts0 and counts: expected class:count,class:count,... with rising classes"
        )
        raise lines.error(bad.row, f"{expected}, found {found}") from None


def check_rows(rows: Rows, rules: Rules) -> tuple[list[str], list[str]]:
    """What is wrong, and what should be known: both with file, line and input."""
    votes, claimed = rows.votes, rows.predict >= 0
    proved, early = _proved(rows, rules)
    radius = recompute.radius(rows.p_lower, rules.sigma, rules.law)
    multiclass, two_class = rows.columns["multiclass_radius"], _two_class(rows, rules)
    source = rows.columns["noise"] + " " + rows.columns["seed"]
    wrong: list[tuple[Any, str]] = [
        (votes.n0 != rows.n0, "n0 is {n0}, but its counts add up to {drawn0}"),
        (votes.n != rows.n, "n is {n}, but its counts add up to {drawn}"),
        (rows.n0 != rules.n0, f"expected {rules.n0} selection samples, found {{n0}}"),
        (~_possible_n(rows, rules), "no input of this store has {n} estimation samples"),
        (
            source != f"{rules.noise} {rules.seed}",
            f"expected noise and seed {rules.noise} {rules.seed}, found {{noise}} {{seed}}",
        ),
        (
            np.maximum(rows.label, votes.highest) >= rules.classes,
            f"a class beyond the {rules.classes} of the store",
        ),
        (
            claimed & (rows.predict != votes.selected),
            "predicts {predict}, but the selection samples name {selected}",
        ),
        (
            ~(rows.p_lower <= proved * (1 + _MORE)),
            "p_lower {p_lower} is more than its counts prove, {proved:.12g}",
        ),
        (
            ~(rows.radius <= radius * (1 + _MORE) + 1e-12),
            "radius {radius} is more than p_lower {p_lower} gives",
        ),
        (
            claimed & ~(rows.p_lower >= 0.5),
            "a class is claimed with p_lower {p_lower} below 1/2",
        ),
        (~claimed & (rows.radius != 0), "an abstention has the radius {radius}, expected 0"),
        (
            ~np.where(
                np.isnan(two_class),
                np.isnan(multiclass),
                multiclass <= two_class * (1 + _MORE) + _MORE * rules.sigma,
            ),
            "multiclass_radius {multiclass_radius} is more than its counts prove, {two_class:.12g}",
        ),
    ]
    if rules.procedure == "radius":
        tested = ~claimed | np.isin(rows.radius, rules.radii)
        wrong.append((~tested, "radius {radius} was never tested"))
    known = {
        **{name: column for name, column in rows.columns.items() if name not in ("n0", "n")},
        "n0": rows.n0,
        "n": rows.n,
        "drawn0": votes.n0,
        "drawn": votes.n,
        "selected": votes.selected,
        "proved": proved,
        "two_class": two_class,
    }
    problems = [
        f"{rows.places[i]}: {text.format_map({name: column[i] for name, column in known.items()})}"
        for mask, text in wrong
        for i in np.flatnonzero(mask)
    ]
    return problems, list(_notes(rows, rules, proved, early))


def _notes(rows: Rows, rules: Rules, proved: Array, early: Bools) -> Iterator[str]:
    weaker = rows.p_lower < proved * (1 - _LESS)
    if rules.procedure == "fixed" and weaker.any():
        claim = (
            "1 row claims less than its"
            if weaker.sum() == 1
            else f"{weaker.sum()} rows claim less than their"
        )
        yield f"{claim} counts prove, the first at {rows.places[weaker.argmax()]}"
    if early.any():
        yield (
            f"{early.sum()} {noun(int(early.sum()), 'row rests', 'rows rest')} on an earlier look at the samples, "
            "whose count is not stored: it was checked that one is possible (resampling checks more)"
        )


def _possible_n(rows: Rows, rules: Rules) -> Bools:
    skipped = rules.skip_wrong & (rows.votes.selected != rows.label)
    looks = {
        "fixed": [rules.n],
        "radius": recompute.radius_looks(rules.n),
        "tolerance": list(rules.looks),
    }
    return np.asarray(np.where(skipped, rows.n == 0, np.isin(rows.n, looks[rules.procedure])))


def _proved(rows: Rows, rules: Rules) -> tuple[Array, Bools]:
    """The largest p_lower that the counts allow, and which claims need an earlier look than the last."""
    sampled, never = rows.n > 0, np.zeros(len(rows.n), bool)
    if rules.procedure == "fixed":
        bound = recompute.lower_bound(rows.votes.top, np.maximum(rows.n, 1), rules.alpha)
        return np.where(sampled, np.maximum(bound - rules.tau, 0.0), 0.0), never
    if rules.procedure == "tolerance":
        return _best_bound(rows, rules)
    looks = recompute.radius_looks(rules.n)
    needed = recompute.probability(rules.radii, rules.sigma, rules.law)
    open_still, proved, early = sampled.copy(), np.zeros(len(rows.n)), never.copy()
    for radius, p in zip(rules.radii, needed.tolist(), strict=True):
        reach = np.array(recompute.thresholds(p + rules.tau, looks, rules.alpha))
        seen = np.array(looks)[None] <= rows.n[:, None]
        possible = (seen & (np.minimum(rows.votes.top[:, None], looks) >= reach)).any(1)
        last = (np.array(looks)[None] == rows.n[:, None]) & (rows.votes.top[:, None] >= reach)
        open_still &= possible  # a radius counts only if all smaller ones do
        proved = np.where(open_still, p, proved)
        early |= open_still & ~last.any(1) & (rows.radius >= radius) & (rows.predict >= 0)
    return proved, early


def _best_bound(rows: Rows, rules: Rules) -> tuple[Array, Bools]:
    best, final = np.zeros(len(rows.n)), np.zeros(len(rows.n))
    for look, level in zip(rules.looks, rules.levels, strict=True):
        bound = (
            recompute.lower_bound(
                np.minimum(rows.votes.top, look), np.full(len(rows.n), look), level
            )
            - rules.tau
        )
        best = np.where(rows.n >= look, np.maximum(best, bound), best)
        final = np.where(rows.n == look, bound, final)
    return best, np.asarray(rows.p_lower > final * (1 + _MORE))


def _two_class(rows: Rows, rules: Rules) -> Array:
    """The two-class radius, which only a number of samples fixed in advance can have."""
    n, top, other = np.maximum(rows.n, 1), rows.votes.top, rows.votes.other
    p_a = np.maximum(recompute.lower_bound(top, n, rules.split * rules.alpha) - rules.tau, 0.0)
    rest = recompute.lower_bound(n - np.minimum(other, n), n, (1 - rules.split) * rules.alpha)
    p_b = np.minimum(1.0 - rest + rules.tau, 1.0 - p_a)
    radius = recompute.two_class_radius(p_a, p_b, rules.sigma, rules.law)
    return np.where((rows.n > 0) & (rules.procedure == "fixed"), radius, np.nan)
