"""Trade-offs of runs, of the field's logs and of published tables together: clean accuracy against robustness."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.published.catalogue import load_table
from smoothcert.published.row import method_settings
from smoothcert.report.measures.across_seeds import PROCEDURE
from smoothcert.report.measures.analysis import (
    average_certified_radius,
    certified_accuracy,
    clean_accuracy,
)
from smoothcert.report.measures.collapse import collapsed
from smoothcert.report.measures.groups import caveats
from smoothcert.report.measures.same_data import known_data
from smoothcert.report.measures.tradeoff import flat, is_number
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import method_in, method_of
from smoothcert.report.read.names import one_line
from smoothcert.statistics.value import CERTIFIED_ACCURACY

# What folders of the field's releases call otherwise than the papers, and than the settings of runs and tables here.
_RENAMED = {"lbd": "lam", "tau": "eta"}


@dataclass(frozen=True)
class Spot:
    """`values`: clean accuracy, ACR, then the certified accuracy at each radius; nan where it is not known."""

    value: float | None
    values: tuple[float, ...]


@dataclass(frozen=True)
class Series:
    """The spots of a method along `parameter`, ascending; a single spot has none.

    `notes` must stand beside its name: which of its numbers are in doubt, partial or of collapsed networks.
    """

    name: str
    key: str  # the method, where it is known
    parameter: str
    published: bool
    spots: tuple[Spot, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """One run or row: `numbers` are what may vary along a series, and `rest` must be equal in it."""

    name: str
    key: str
    numbers: Mapping[str, float]
    rest: Hashable
    family: Hashable  # with those that it may be joined to along sigma, whatever else differs
    values: tuple[float, ...]
    published: bool = False
    where: tuple[
        str, ...
    ] = ()  # data set and folders, or the table: tells series of one name apart
    notes: tuple[str, ...] = ()
    collapsed: bool = False
    data: str | None = None  # the data set, where it is known


def overlays(
    results: Sequence[Certificates],
    radii: Sequence[float],
    tables: Sequence[str] = (),
    rounded: bool = False,
) -> list[Series]:
    """Every run, and every row of the published `tables`, in one series: with those that differ in one number from it.

    Hyperparameters come before sigma, and those with more values before others. Runs of the same value (seeds) are
    averaged. The numbers of a log are those that its folders name, as in `lbd_5.0/eta_0.5`. Where a method has one
    setting for each sigma, as most tables do, these are joined along sigma, also if another number was chosen for it.
    """
    entries = [
        replace(
            _of_run(c, radii, rounded),
            notes=tuple(caveats([c])),
            collapsed=collapsed(c) > 0,
            data=known_data(c),
        )
        for c in results
        if c.labelled and c.tested_radii is None
    ]
    entries += [entry for name in tables for entry in _of_table(name, radii)]
    joined = _by_sigma(entries)
    found = [(places, _series([entries[i] for i in places], "sigma")) for places in joined]
    left = [i for i in range(len(entries)) if not any(i in places for places in joined)]
    while left:
        parameter, places = _longest(entries, left)
        found.append((places, _series([entries[i] for i in places], parameter)))
        left = [i for i in left if i not in places]
    found.sort(key=lambda pair: pair[0][0])
    names = _distinct(
        [series for _, series in found], [[entries[i].where for i in places] for places, _ in found]
    )
    told = _conditions(
        [series for _, series in found], [[entries[i] for i in places] for places, _ in found]
    )
    return [
        replace(series, name=name, notes=(*note, *series.notes))
        for (_, series), name, note in zip(found, names, told, strict=True)
    ]


def at_least(series: Sequence[Series], least: float) -> tuple[list[Series], int]:
    """The series without spots whose clean accuracy is below `least`, and how many these were."""
    kept = [
        replace(s, spots=tuple(spot for spot in s.spots if not spot.values[0] < least))
        for s in series
    ]
    return kept, sum(len(s.spots) for s in series) - sum(len(s.spots) for s in kept)


def _distinct(series: Sequence[Series], where: Sequence[Sequence[tuple[str, ...]]]) -> list[str]:
    """The name of each series; where several would have one, with what all its entries share and the others do not."""
    own = [
        [part for part in dict.fromkeys(all_of[0]) if all(part in each for each in all_of)]
        for all_of in where
    ]
    keys, names = [(entry.name, entry.parameter, entry.published) for entry in series], []
    for place, entry in enumerate(series):
        alike = [i for i, key in enumerate(keys) if key == keys[place]]
        told = [part for part in own[place] if any(part not in own[i] for i in alike)]
        same = [i for i in alike if {*told} <= {*own[i]}]
        told += [str(same.index(place) + 1)] if len(same) > 1 else []
        names.append(entry.name if len(alike) == 1 else f"{entry.name} ({', '.join(told)})")
    return names


def _conditions(
    series: Sequence[Series], entries: Sequence[Sequence[_Entry]]
) -> list[tuple[str, ...]]:
    """A note on the data set and sigma of each series, where the series differ in them: such spots do not compare."""
    data = [own[0].data for own in entries]  # a series is of one data set
    noise = [own[0].numbers.get("sigma") for own in entries]
    noise = [
        None if one.parameter == "sigma" else sigma
        for one, sigma in zip(series, noise, strict=True)
    ]
    notes: list[tuple[str, ...]] = []
    for name, sigma in zip(data, noise, strict=True):
        words = [] if name is None or len({*data} - {None}) == 1 else [name]
        words += [] if sigma is None or len({*noise} - {None}) == 1 else [f"σ={sigma:g}"]
        notes.append((", ".join(words),) if words else ())
    return notes


def _by_sigma(entries: Sequence[_Entry]) -> list[list[int]]:
    """The families with one setting for each of several sigmas, as places."""
    families: dict[Hashable, list[int]] = {}
    for place, entry in enumerate(entries):
        families.setdefault(entry.family, []).append(place)
    joined = []
    for places in families.values():
        settings = {tuple(sorted(entries[i].numbers.items())) for i in places}
        sigmas = {entries[i].numbers.get("sigma") for i in places}
        if len(settings) == len(sigmas) > 1 and None not in sigmas:
            joined.append(places)
    return joined


def _longest(entries: Sequence[_Entry], left: Sequence[int]) -> tuple[str, list[int]]:
    """The series to take next, as places: along the best parameter, else the first entry alone."""
    best: tuple[tuple[bool, int], str, list[int]] = ((False, 1), "", [left[0]])
    for parameter in sorted({name for i in left for name in entries[i].numbers}):
        groups: dict[str, list[int]] = {}
        for i in left:
            if parameter in entries[i].numbers:
                others = {
                    name: value for name, value in entries[i].numbers.items() if name != parameter
                }
                same = json.dumps(
                    [entries[i].published, others, repr(entries[i].rest)], sort_keys=True
                )
                groups.setdefault(same, []).append(i)
        for places in groups.values():
            values = len({entries[i].numbers[parameter] for i in places})
            rank = parameter != "sigma", values
            if values > 1 and rank > best[0]:
                best = rank, parameter, places
    return best[1], best[2]


def _series(entries: Sequence[_Entry], parameter: str) -> Series:
    by_value: dict[float | None, list[tuple[float, ...]]] = {}
    for entry in entries:
        by_value.setdefault(entry.numbers.get(parameter), []).append(entry.values)
    spots = [
        Spot(value, tuple(np.mean(found, axis=0).tolist())) for value, found in by_value.items()
    ]
    spots.sort(key=lambda spot: spot.value or 0.0)
    first, shown = entries[0], parameter.removeprefix("method.")
    rows = {
        entry.name.partition(",")[0] for entry in entries
    }  # tables have rows such as `CAT-RS, lambda = 1`
    name = (
        first.name
        if not parameter
        else rows.pop()
        if first.published and len(rows) == 1
        else first.key
    )
    notes = [note for entry in entries for note in entry.notes]
    for entry in entries:
        if entry.collapsed:
            notes.append(f"COLLAPSED at {entry.numbers[parameter]:g}" if parameter else "COLLAPSED")
    return Series(
        name, first.key, shown, first.published, tuple(spots), tuple(dict.fromkeys(notes))
    )


def _of_run(c: Certificates, radii: Sequence[float], rounded: bool) -> _Entry:
    values = (
        clean_accuracy(c),
        average_certified_radius(c, rounded),
        *certified_accuracy(c, list(radii), rounded),
    )
    key = method_of(c) or one_line(c.name.partition("/")[0])
    where = tuple(map(one_line, c.name.split("/")))
    if c.config is None:
        numbers, rest = _in_folders(c)
        return _Entry(
            one_line(c.name),
            key,
            numbers,
            rest,
            (key, rest),
            tuple(map(float, values)),
            where=where,
        )
    settings = {name: value for name, value in flat(c.config).items() if name != "seed"}
    procedure = [c.identity.get(name) for name in PROCEDURE if name != "sigma"]
    family = (key, c.config.get("dataset"), c.config.get("model"), repr(procedure))
    where = (one_line(str(c.config.get("dataset"))), *where)
    return _entry(one_line(c.name), key, settings, family, tuple(map(float, values)), where)


def _of_table(name: str, radii: Sequence[float]) -> list[_Entry]:
    table = load_table(name)
    entries = []
    for row in table.rows:
        accuracy = {v.r: v.value for v in row.printed if v.place[::2] == (CERTIFIED_ACCURACY, "")}
        acr = row.acr.value if row.acr else np.nan
        if 0.0 in accuracy:
            values = (accuracy[0.0], acr, *(accuracy.get(r, np.nan) for r in radii))
            key = method_in({"method": method_settings(row.settings)}) or row.label
            settings = {name: value for name, value in flat(row.settings).items() if name != "seed"}
            family = (name, row.label.partition(",")[0], row.dataset, row.settings.get("model"))
            entry = _entry(row.label, key, settings, family, values, (name,), published=True)
            entries.append(replace(entry, data=row.dataset))
    if not entries:
        raise ConfigError(
            f"{name} prints no clean accuracies, so that it has no trade-off: choose another table"
        )
    if all(np.isnan(entry.values[1:]).all() for entry in entries):
        printed = " ".join(f"{r:g}" for r in table.radii if r)
        asked = f", found {' '.join(f'{r:g}' for r in radii)}" if radii else ""
        raise ConfigError(
            f"{name} prints no ACR, but accuracies at radii {printed}: name some of them as radii{asked}"
        )
    return entries


def _entry(
    name: str,
    key: str,
    settings: Mapping[str, object],
    family: tuple[object, ...],
    values: tuple[float, ...],
    where: tuple[str, ...],
    published: bool = False,
) -> _Entry:
    numbers = {name: float(value) for name, value in settings.items() if is_number(value)}  # type: ignore[arg-type]
    other = {name: value for name, value in settings.items() if name not in numbers}
    rest = (json.dumps(other, sort_keys=True, default=str), family if not published else family[0])
    return _Entry(name, key, numbers, rest, family, values, published, where)


def _in_folders(c: Certificates) -> tuple[dict[str, float], Hashable]:
    """`gamma_8.0` in the path of a log is a number called gamma; `noise_0.50` is sigma, and seeds are no setting."""
    numbers = {} if c.sigma is None else {"sigma": c.sigma}
    rest = []
    for part in (
        c.source.resolve().with_suffix("" if c.source.suffix == ".tsv" else c.source.suffix).parts
    ):
        if re.fullmatch(r"(noise|sigma)_\d.*|seed[_-]?\d+", part):
            continue
        match = re.fullmatch(r"([A-Za-z]+)_(\d+(?:\.\d+)?)", part)
        if match:
            numbers[_RENAMED.get(match[1], match[1])] = float(match[2])
        else:
            rest.append(part)
    return numbers, tuple(rest)
