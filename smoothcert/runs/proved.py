"""The rows of a store, each with its place, and whether their claims are no more than their counts prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.progress import noun
from smoothcert.runs import recompute
from smoothcert.runs.recompute import Array, Whole
from smoothcert.runs.rows import Lines, typed_columns, whole
from smoothcert.runs.rules import Rules

_MORE = 1e-9  # a claim may exceed the recomputed one by this share: other functions round otherwise
_LESS = 1e-6  # one that is this much smaller is called weaker than it could be

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """The rows of one part, column by column; of the counts, what a certificate needs."""

    places: list[str]  # file, line and input, for messages
    idx: Whole
    label: Whole
    predict: Whole
    radius: Array
    p_lower: Array
    multiclass: Array
    n0: Whole
    n: Whole
    drawn0: Whole  # sum of the selection counts
    drawn: Whole
    selected: Whole
    top: Whole  # estimation count of the selected class
    other: Whole  # largest of the others
    classes: Whole  # the highest class that was counted, plus one
    source: list[str]  # noise and seed
    counts: list[str]  # of both stages, as stored

    @property
    def said(self) -> tuple[Any, ...]:
        """The columns in which two rows of one input must agree."""
        return (
            self.label,
            self.predict,
            self.radius,
            self.p_lower,
            self.multiclass,
            self.counts,
            self.source,
        )


def read_rows(lines: Lines) -> Rows:
    """Convert the rows of a part; what cannot be read is an error with file and line."""
    columns = typed_columns(lines)
    summed = []
    for row, (counts0, counts) in enumerate(
        zip(columns["counts0"], columns["counts"], strict=True)
    ):
        try:
            first, second = class_counts(counts0), class_counts(counts)
            sizes = _size(columns["n0"][row]), _size(columns["n"][row])
            selected = min(first, key=lambda label: (-first[label], label))
        except ValueError as error:
            raise lines.error(
                row, "expected whole numbers n0 and n, and counts as class:count,class:count"
            ) from error
        others = (count for label, count in second.items() if label != selected)
        highest = max(*first, *second, 0)
        sums = (
            sum(first.values()),
            sum(second.values()),
            selected,
            second.get(selected, 0),
            max(others, default=0),
        )
        summed.append((*sizes, *sums, highest + 1))
    sums_of = ("n0", "n", "drawn0", "drawn", "selected", "top", "other", "classes")
    numbers = np.array(summed, dtype=np.int64).reshape(len(summed), len(sums_of)).T
    return Rows(
        places=[
            f"{lines.path.name}, line {n}, input {i}"
            for n, i in zip(lines.numbers, columns["idx"], strict=True)
        ],
        multiclass=columns["multiclass_radius"],
        counts=[
            f"{first}; {second}"
            for first, second in zip(columns["counts0"], columns["counts"], strict=True)
        ],
        source=[
            f"{noise} {seed}" for noise, seed in zip(columns["noise"], columns["seed"], strict=True)
        ],
        **{name: columns[name] for name in ("idx", "label", "predict", "radius", "p_lower")},
        **dict[str, Any](zip(sums_of, numbers, strict=True)),
    )


def class_counts(text: str) -> dict[int, int]:
    """Of "class:count,class:count"."""
    pairs = [entry.split(":") for entry in text.split(",") if entry]
    found = {_size(label): _size(count) for label, count in pairs}
    if len(found) < len(pairs):
        raise ValueError(text)
    return found


def _size(text: str) -> int:
    """A whole number that sums of such numbers cannot overflow with."""
    if not 0 <= (found := whole(text)) < 2**40:
        raise ValueError(text)
    return found


def check_rows(rows: Rows, rules: Rules) -> tuple[list[str], list[str]]:
    """What is wrong, and what should be known: both with file, line and input."""
    skipped = rules.skip_wrong & (rows.selected != rows.label)
    proved, early = _proved(rows, rules)
    claimed = rows.predict >= 0
    wrong: list[tuple[Bools, Callable[[int], str]]] = [
        (
            rows.drawn0 != rows.n0,
            lambda i: f"n0 is {rows.n0[i]}, but its counts add up to {rows.drawn0[i]}",
        ),
        (
            rows.drawn != rows.n,
            lambda i: f"n is {rows.n[i]}, but its counts add up to {rows.drawn[i]}",
        ),
        (
            rows.n0 != rules.n0,
            lambda i: f"expected {rules.n0} selection samples, found {rows.n0[i]}",
        ),
        (
            ~_possible_n(rows, rules, skipped),
            lambda i: f"no input of this store has {rows.n[i]} estimation samples",
        ),
        (
            np.array([source != f"{rules.noise} {rules.seed}" for source in rows.source], bool),
            lambda i: f"expected noise and seed {rules.noise} {rules.seed}, found {rows.source[i]}",
        ),
        (
            np.maximum(rows.label + 1, rows.classes) > rules.classes,
            lambda i: f"a class beyond the {rules.classes} of the store",
        ),
        (
            claimed & (rows.predict != rows.selected),
            lambda i: (
                f"predicts {rows.predict[i]}, but the selection samples name {rows.selected[i]}"
            ),
        ),
        (
            ~(rows.p_lower <= proved * (1 + _MORE)),
            lambda i: f"p_lower {rows.p_lower[i]} is more than its counts prove, {proved[i]:.12g}",
        ),
        (
            ~(
                rows.radius
                <= recompute.radius(rows.p_lower, rules.sigma, rules.law) * (1 + _MORE) + 1e-12
            ),
            lambda i: f"radius {rows.radius[i]} is more than p_lower {rows.p_lower[i]} gives",
        ),
        (
            claimed & ~(rows.p_lower >= 0.5),
            lambda i: f"a class is claimed with p_lower {rows.p_lower[i]} below 1/2",
        ),
        (
            ~claimed & (rows.radius != 0),
            lambda i: f"an abstention has the radius {rows.radius[i]}, expected 0",
        ),
        _multiclass(rows, rules),
    ]
    if rules.procedure == "radius":
        tested = ~claimed | np.isin(rows.radius, rules.radii)
        wrong.append((~tested, lambda i: f"radius {rows.radius[i]} was never tested"))
    problems = [
        f"{rows.places[i]}: {say(int(i))}" for mask, say in wrong for i in np.flatnonzero(mask)
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


def _possible_n(rows: Rows, rules: Rules, skipped: Bools) -> Bools:
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
        bound = recompute.lower_bound(rows.top, np.maximum(rows.n, 1), rules.alpha)
        return np.where(sampled, np.maximum(bound - rules.tau, 0.0), 0.0), never
    if rules.procedure == "tolerance":
        return _best_bound(rows, rules)
    looks = recompute.radius_looks(rules.n)
    needed = recompute.probability(rules.radii, rules.sigma, rules.law)
    open_still, proved, early = sampled.copy(), np.zeros(len(rows.n)), never.copy()
    for radius, p in zip(rules.radii, needed.tolist(), strict=True):
        reach = np.array(recompute.thresholds(p + rules.tau, looks, rules.alpha))
        seen = np.array(looks)[None] <= rows.n[:, None]
        possible = (seen & (np.minimum(rows.top[:, None], looks) >= reach)).any(1)
        last = (np.array(looks)[None] == rows.n[:, None]) & (rows.top[:, None] >= reach)
        open_still &= possible  # a radius counts only if all smaller ones do
        proved = np.where(open_still, p, proved)
        early |= open_still & ~last.any(1) & (rows.radius >= radius) & (rows.predict >= 0)
    return proved, early


def _best_bound(rows: Rows, rules: Rules) -> tuple[Array, Bools]:
    best, final = np.zeros(len(rows.n)), np.zeros(len(rows.n))
    for look, level in zip(rules.looks, rules.levels, strict=True):
        bound = (
            recompute.lower_bound(np.minimum(rows.top, look), np.full(len(rows.n), look), level)
            - rules.tau
        )
        best = np.where(rows.n >= look, np.maximum(best, bound), best)
        final = np.where(rows.n == look, bound, final)
    return best, np.asarray(rows.p_lower > final * (1 + _MORE))


def _multiclass(rows: Rows, rules: Rules) -> tuple[Bools, Callable[[int], str]]:
    """The two-class radius, which only a number of samples fixed in advance can have."""
    fixed, n = (rows.n > 0) & (rules.procedure == "fixed"), np.maximum(rows.n, 1)
    p_a = np.maximum(recompute.lower_bound(rows.top, n, rules.split * rules.alpha) - rules.tau, 0.0)
    upper = (
        1.0
        - recompute.lower_bound(n - np.minimum(rows.other, n), n, (1 - rules.split) * rules.alpha)
        + rules.tau
    )
    r = recompute.two_class_radius(p_a, np.minimum(upper, 1.0 - p_a), rules.sigma, rules.law)
    fine = np.where(
        fixed, rows.multiclass <= r * (1 + _MORE) + _MORE * rules.sigma, np.isnan(rows.multiclass)
    )
    return (
        ~fine,
        lambda i: (
            f"multiclass_radius {rows.multiclass[i]} is more than its counts prove, {r[i]:.12g}"
        ),
    )
