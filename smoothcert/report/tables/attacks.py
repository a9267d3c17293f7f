"""Accuracy under attack beside certified accuracy, and what the network itself answers, as tables and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import certified_accuracy
from smoothcert.report.measures.attack_curves import setting_of
from smoothcert.report.measures.attacked import EmpiricalRow, empirical_rows
from smoothcert.report.read.attacks import (
    NO_ATTACK,
    Attacks,
    all_certificates_of,
    certificates_of,
    contradictions,
    with_alarms,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import ALARM, distinct_names, labels_of, one_line
from smoothcert.report.table import Table
from smoothcert.report.tables.notes import alarm_notes
from smoothcert.report.tables.tables import radius_labels
from smoothcert.statistics.printed import doubt, in_percent

_NO_ATTACK = (
    "a table of attacks needs stores of attacks, and these runs have none: `smoothcert attack RUN --radius 0 0.5 1` "
    "makes one"
)


def attack_table(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> Table:
    """A row for each store of attacks, and before it one with the certified accuracy of the same inputs.

    The radii are those that were attacked; a cell stays blank where a store has no such radius. Equal certified rows
    are shown once. Rows of several stores that say the same of themselves name their stores.
    """
    if not attacks:
        raise ConfigError(_NO_ATTACK)
    shown = sorted({radius for a in attacks for radius in a.radii})
    rows: list[tuple[str, ...]] = []
    stores: list[Path] = []
    for a in attacks:
        c = certificates_of(a, results)
        found = {row.radius: row for row in empirical_rows(a, c)}
        certified = {
            r: in_percent(share, proved=True) for r, share in _certified(a, c, shown, found).items()
        }
        left = {r: in_percent(row.empirical) for r, row in found.items()}
        about = (one_line(_run_name(a, c, results)), _inputs(list(found.values())))
        n = "-" if c is None or c.n is None else str(c.n)
        proved = (*about, "certified", "-", "-", n, *(certified.get(r, "") for r in shown))
        attack, noises, steps, *_ = setting_of(a)
        under = attack if attack == NO_ATTACK else f"under {attack}"
        own = (
            *about,
            under,
            str(steps or "-"),
            str(noises or "-"),
            str(a.n),
            *(left.get(r, "") for r in shown),
        )
        rows += [
            row
            for row in (proved, own)
            if row is own or (row not in rows and any(certified.values()))
        ]
        stores += [a.source.resolve()] * (len(rows) - len(stores))
    head = ("run", "inputs", "accuracy", "steps", "noises", "n")
    rows = _told_apart(rows, stores, len(head))
    notes = tuple(_notes(attacks, results))
    if any(c.norm != "l2" for c in results):
        notes = ("radii of attacks are in l2 norm", *notes)
    return Table(
        head,
        tuple(rows),
        radius_labels(shown),
        notes,
        group="accuracy (%) at r",
        caption="Under attack",
    )


def _told_apart(
    rows: Sequence[tuple[str, ...]], stores: Sequence[Path], head: int
) -> list[tuple[str, ...]]:
    """The same rows, with the name of the store in the third column where others have the same first `head` cells."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(row[:head], []).append(place)
    named = list(rows)
    for places in (places for places in alike.values() if len(places) > 1):
        for place, name in zip(
            places, distinct_names([(stores[place], None) for place in places]), strict=True
        ):
            run, inputs, accuracy, *rest = rows[place]
            of = "inputs of" if accuracy == "certified" else "store"
            named[place] = (run, inputs, f"{accuracy} ({of} {one_line(name)})", *rest)
    return named


def _certified(
    a: Attacks, c: Certificates | None, radii: Sequence[float], found: Mapping[float, EmpiricalRow]
) -> dict[float, float | None]:
    """Certified accuracy of the attacked inputs, also at radii of other attacks; what the store says if that is all."""
    if c is None or a.partial or not np.isin(a.inputs, c.idx).all():
        return {radius: row.certified for radius, row in found.items()}
    shares = certified_accuracy(c.where(np.isin(c.idx, a.inputs)), list(radii)).tolist()
    return {
        radius: None if np.isnan(share) else share
        for radius, share in zip(radii, shares, strict=True)
    }


def base_table(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> Table:
    """What the network itself answers on the same images: without noise, and under a single noise."""
    known = [a for a in attacks if a.base_predict is not None]
    if not known:
        raise ConfigError(
            "the network's own accuracy is stored by `smoothcert attack RUN --radius 0`, and with every attack of this "
            "version: none was found"
        )
    rows = [
        (
            one_line(_run_name(a, c, results)),
            one_line(a.name) if row.radius else "none",
            *radius_labels([row.radius]),
            str(row.inputs),
            *map(in_percent, (row.base, row.noisy, row.empirical, row.abstained)),
        )
        for a in known
        for c in [certificates_of(a, results)]
        for row in empirical_rows(a, c)
    ]
    head = ("run", "attack", "r", "inputs", "network %", "one noise %", "smoothed %", "abstain %")
    note = "network: without noise; one noise: mean over PREDICT's noisy copies; smoothed: PREDICT's answer"
    notes = (*alarms(attacks, results), note)
    return Table(head, tuple(dict.fromkeys(rows)), notes=notes, caption="The network itself")


def attack_values(
    attacks: Sequence[Attacks], results: Sequence[Certificates]
) -> list[dict[str, Any]]:
    """The same for programs: shares from 0 to 1, None for what is not known."""
    found = []
    for a in attacks:
        c = certificates_of(a, results)
        settings = {"attack": a.attack, "steps": a.steps, "noises": a.noises, "n": a.n}
        names = ("sigma", "alpha", "noise", "dataset", "split", "beta", "as_printed")
        about = {name: a.identity.get(name) for name in names}
        found.append(
            {
                "name": a.name,
                "run": _run_name(a, c, results),
                "source": a.source,
                "certificates": None if c is None else c.source,
                **settings,
                **about,
                "attacked": [asdict(row) for row in empirical_rows(a, c)],
                "expected": a.expected,
                "partial": a.partial,
                "notes": list(_notes([a], results)),
            }
        )
    return found


def alarms(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> list[str]:
    """A sentence for each attack, radius and store of certificates with inputs that contradict what it claims.

    What an attack recorded of certificates that are gone is told too.
    """
    found = alarm_notes([with_alarms(c, attacks) for c in results])
    for a in attacks:
        if not all_certificates_of(a, results):
            found += [f"{ALARM}: {a.run}, {text}" for text in contradictions(a, None)]
    return found


def _notes(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> list[str]:
    notes = alarms(attacks, results)
    for a in attacks:
        c = certificates_of(a, results)
        name = f"{one_line(_run_name(a, c, results))}, {one_line(a.name)}"
        notes += [f"{name}: {warning}" for warning in a.warnings]
        if a.partial:
            notes.append(f"{name}: partial, {len(a.idx)} of {a.expected} rows (inputs times radii)")
        if c is None:
            notes.append(
                f"{name}: no l2 certificates of the same network, sigma and images are here"
            )
        elif doubt(c.noise):
            notes.append(f"{name}: certified by {doubt(c.noise)}")
    return notes


def _run_name(a: Attacks, c: Certificates | None, results: Sequence[Certificates]) -> str:
    """The label of its certificates, if only in another norm; without any, the folder of the run."""
    about = c or next(iter(all_certificates_of(a, results)), None)
    labels = [x for entry, x in zip(results, labels_of(results), strict=True) if entry is about]
    return labels[0] if labels else a.run + f" ({ALARM})" * bool(contradictions(a, None))


def _inputs(rows: Sequence[EmpiricalRow]) -> str:
    """How many were attacked; while a store is being made, the radii may differ in it."""
    counts = sorted({row.inputs for row in rows})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
