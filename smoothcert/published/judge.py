"""Ours beside what is printed: is the difference more than the luck of training and of the choice of images?

docs/verdicts.md says what the interval is made of.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any, Literal, NamedTuple, Protocol

from scipy.special import stdtr, stdtrit

from smoothcert.published.averages import best_of, over_corruptions, over_seeds
from smoothcert.published.catalogue import all_rows
from smoothcert.published.row import Row
from smoothcert.statistics.value import SPREAD, Place, Value

LEVEL = 0.95
"""Of equal trainings as many rows are said to differ as are left to 1."""

NARROW_SHARE = 0.04
NARROW_RADIUS = 0.03
"""In units and as a part of the printed value, the larger: an interval that is wider shows nothing to be reproduced."""

AUTHORS = "authors"
"""What the logs are called that gave the printed values."""

Word = Literal["reproduced", "different", "not judged"]


class Verdict(NamedTuple):
    """`difference` is ours minus theirs, `half` the half width of the interval; nan where there is none."""

    word: Word
    difference: float
    half: float
    reason: str


class Measured(Protocol):
    """What one certified run gave; `beside` has its differences to the logs of others on the same images."""

    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def values(self) -> tuple[Value, ...]: ...
    @property
    def beside(self) -> Mapping[str, tuple[Value, ...]]: ...


class Spread(NamedTuple):
    """Standard deviation over seeds, and its degrees of freedom: 0 if it is not known."""

    sd: float = 0.0
    dof: float = 0.0

    @classmethod
    def of(cls, value: Value) -> Spread:
        return cls() if math.isnan(value.sd) else cls(value.sd, value.seeds - 1)

    def with_(self, other: Spread) -> Spread:
        dof = self.dof + other.dof
        variance = (self.dof * self.sd**2 + other.dof * other.sd**2) / dof if dof else 0.0
        return Spread(math.sqrt(variance), dof)


class Beside(NamedTuple):
    """What decides, beside both numbers and their own spreads, how far they may lie apart."""

    step: float = 0.0  # one in the last digit that is printed
    pooled: Spread = Spread()  # over seeds, of rows like the printed one, where it has none
    images: float = 0.0  # standard error by the choice of images; 0 on the same images
    paired: Value | None = None  # ours minus the printed run on the same images, with 95 % ends
    numbers: int = 1  # how many are compared in the row


def judge(ours: Value, printed: Value, beside: Beside) -> Verdict:
    """Whether the difference lies in its prediction interval, if that is narrow enough to say something."""
    difference, image_error, step = ours.value - printed.value, beside.images, beside.step
    theirs = printed.seeds
    if beside.paired and not math.isnan(beside.paired.high - beside.paired.low):
        difference, step, theirs = beside.paired.value, 0.0, 1  # a log may be of one run
        image_error = (beside.paired.high - beside.paired.low) / (2 * 1.96)
    spread = _spread(ours, printed, beside.pooled)
    if spread.dof < 1:
        one = "one seed of ours and no published spread"
        return Verdict("not judged", difference, math.nan, one)
    # the number of images that one seed has more than another is a whole one
    least = 1 / max(ours.images, printed.images, 1) if printed.is_share else 0.0
    seeds = max(spread.sd, least) ** 2 * (1 / ours.seeds + 1 / theirs)
    variance = seeds + image_error**2
    dof = min(spread.dof * (variance / seeds) ** 2, 1e9) if seeds else 1e9  # Satterthwaite's
    error, tail = math.sqrt(variance), (1 - LEVEL) / (2 * beside.numbers)
    half = float(-stdtrit(dof, tail)) * error + step / 2
    shown = f"{_signed(difference, printed)} ± {_size(half, printed)}"
    if abs(difference) > half + 1e-12:
        beyond = (abs(difference) - step / 2) / error if error else math.inf
        chance = min(1.0, 2 * beside.numbers * float(stdtr(dof, -beyond)))
        word = "higher" if difference > 0 else "lower"
        sure = f"of equal trainings {_chance(chance)} of the rows differ so much"
        return Verdict("different", difference, half, f"{word}, {shown}; {sure}")
    allowed = max(NARROW_RADIUS, NARROW_RADIUS * printed.value)
    if half > (NARROW_SHARE if printed.is_share else allowed):
        few = "seeds" if seeds >= image_error**2 else "images"
        return Verdict("not judged", difference, half, f"too few {few}, {shown}")
    return Verdict("reproduced", difference, half, shown)


def image_error(ours: Value, printed: Value, spread: float) -> float:
    """The standard error of a difference of two numbers that were measured on different images.

    `spread` is the standard deviation of the radii of a run. A share has one image more of either kind, so that its
    error is not 0 where all or none of the images count.
    """
    both = ours.images + printed.images
    if printed.is_share:
        count = ours.value * ours.images + printed.value * printed.images + 1
        spread = math.sqrt(count * (both + 2 - count)) / (both + 2)
    return spread * math.sqrt(1 / ours.images + 1 / printed.images)


def pooled(row: Row, printed: Value) -> Spread:
    """The spread that another table prints of a row of the same settings, else over all rows of a table.

    That is the first table that prints it for the data and sigma of the row. A spread over more images than the row
    has grows with their ratio.
    """
    models = row.best_of or (row,)
    places = {(m.dataset, m.settings.get("model"), m.settings.get("sigma")) for m in models}
    tables: dict[str, list[Spread]] = {}
    for other in _with_spreads():
        found = other.at(*printed.place)
        place = other.dataset, other.settings["model"], other.settings["sigma"]
        if place not in places or found is None or math.isnan(found.sd):
            continue
        more = math.sqrt(max(1.0, found.images / printed.images))
        spread = Spread(found.sd * more, found.seeds - 1)
        if not row.best_of and not other.differences(row.settings):
            return spread
        tables.setdefault(other.table, []).append(spread)
    return pool(next(iter(tables.values()), []))


@cache
def _with_spreads() -> tuple[Row, ...]:
    return tuple(row for row in all_rows() if any(v.seeds > 1 for v in row.printed))


def pool(spreads: Sequence[Spread]) -> Spread:
    """One for a row of a table whose rows have these: what is typical of them.

    Each row adds one degree of freedom, not one for each seed but the first: rows differ more than chance explains,
    so that the row in question may be one of those whose spread is large.
    """
    if not spreads:
        return Spread()
    variance = fmean(spread.sd**2 for spread in spreads)
    return Spread(math.sqrt(variance), max(len(spreads), min(spread.dof for spread in spreads)))


def judge_row(row: Row, measured: Sequence[Measured]) -> list[Verdict]:
    """A verdict for each printed value, in their order, by the runs among these that were made as the row was."""
    models = row.best_of or (row,)
    made = [[model.differences(run.config, run.settings) for model in models] for run in measured]
    alike = [run for run, unlike in zip(measured, made, strict=True) if [] in unlike]
    if row.reason or not alike:
        unlike = min((each for of_run in made for each in of_run), key=len, default=["not run"])
        why = Verdict("not judged", math.nan, math.nan, row.reason or "; ".join(unlike))
        return [why] * len(row.printed)
    same = [run for run in alike if not row.other_images(run.settings)]
    most = max(run.settings["images"] for run in same or alike)
    runs = [run for run in same or alike if run.settings["images"] == most]
    values = _mean(runs, row)
    if row.best_of:
        of_models = [[r for r in runs if not m.differences(r.config, r.settings)] for m in models]
        values = best_of([_mean(found, row) for found in of_models if found])
    logs = {name: _mean(runs, row, name) for run in runs for name in run.beside}
    pools = [pooled(row, v) if math.isnan(v.sd) else Spread() for v in row.printed]
    pairs = [(values.get(v.place), v, pool) for v, pool in zip(row.printed, pools, strict=True)]
    numbers = sum(
        o is not None and (v.r or 0.0) <= row.largest_radius and _spread(o, v, pool).dof >= 1
        for o, v, pool in pairs
    )
    verdicts = []
    for ours, printed, pool in pairs:
        if ours is None or (printed.r or 0.0) > row.largest_radius:
            told = "not measured" if ours is None else "no network has a certificate at this radius"
            verdicts.append(Verdict("not judged", math.nan, math.nan, told))
            continue
        error = 0.0 if same else image_error(ours, printed, _radii(row, printed, values))
        paired = logs.get(AUTHORS, {}).get(printed.place)
        if paired and same and not _prints(row, printed, ours.value - paired.value):
            paired = None
        beside = Beside(row.step(printed), pool, error, paired, numbers)
        verdict = judge(ours, printed, beside)
        for name in logs.keys() - {AUTHORS}:
            if other := logs[name].get(printed.place):
                verdict = verdict._replace(reason=f"{verdict.reason}{_lies(verdict, name, other)}")
        verdicts.append(verdict)
    return verdicts


def _prints(row: Row, printed: Value, of_log: float) -> bool:
    """Whether a log, which has this value on the images of the row, is what the printed value is from."""
    return abs(of_log - printed.value) <= row.step(printed) / 2 + 1e-9


def of_row(verdicts: Iterable[Verdict]) -> Word:
    """Different if any value is, reproduced if all that could be judged are."""
    words = {verdict.word for verdict in verdicts}
    found: tuple[Word, Word] = ("different", "reproduced")
    return next((word for word in found if word in words), "not judged")


def _spread(ours: Value, printed: Value, pool: Spread) -> Spread:
    theirs = Spread.of(printed)
    return Spread.of(ours).with_(theirs if theirs.dof else pool)


def _mean(runs: Iterable[Measured], row: Row, log: str = "") -> dict[Place, Value]:
    """Over the trainings; one that was certified on several corruptions has means over these."""
    trainings: dict[str, dict[Place, Value]] = {}
    for run in runs:
        key = json.dumps(run.config, sort_keys=True, default=str)
        found = run.beside.get(log, ()) if log else run.values
        images = run.settings["images"]
        known = {v.place: v._replace(images=v.images or images) for v in found}
        trainings.setdefault(key, {}).update(known)
    every = [v for found in trainings.values() for v in over_corruptions(found, row.corruptions)]
    return {value.place: value for value in over_seeds(every)}


def _radii(row: Row, printed: Value, values: Mapping[Place, Value]) -> float:
    """The standard deviation of radii over images: ours, else the most that radii of this mean can have."""
    if known := values.get((SPREAD, None, printed.on)):
        return known.value
    if printed.is_share:
        return 0.0
    return math.sqrt(printed.value * max(0.0, row.largest_radius - printed.value))


def _lies(verdict: Verdict, name: str, other: Value) -> str:
    """Where ours lies between what is printed and what others measured."""
    both = (verdict.difference > 0) + (other.value > 0)
    where = ("below both", "between both", "above both")[both]
    return f"; {_signed(other.value, other)} to {name}: {where}"


def _signed(value: float, of: Value) -> str:
    return f"{100 * value:+.2f} points" if of.is_share else f"{value:+.4f}"


def _size(value: float, of: Value) -> str:
    return f"{100 * value:.2f}" if of.is_share else f"{value:.4f}"


def _chance(share: float) -> str:
    return f"{100 * share:.1g} %" if share >= 1e-4 else "fewer than 0.01 %"
