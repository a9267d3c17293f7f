"""Accuracy under attack for programs, and the alarms: answers that contradict a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from smoothcert.report.measures.attacked import empirical_rows
from smoothcert.report.notes import alarm_notes
from smoothcert.report.read.attacks import (
    Attacks,
    all_certificates_of,
    certificates_of,
    contradictions,
    with_alarms,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import (
    ALARM,
    labels_of,
    one_line,
)
from smoothcert.statistics.printed import doubt

if TYPE_CHECKING:
    pass


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
                "run": run_name(a, c, results),
                "source": a.source,
                "certificates": None if c is None else c.source,
                **settings,
                **about,
                "attacked": [asdict(row) for row in empirical_rows(a, c)],
                "expected": a.expected,
                "partial": a.partial,
                "notes": list(attack_notes([a], results)),
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


def attack_notes(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> list[str]:
    notes = alarms(attacks, results)
    for a in attacks:
        c = certificates_of(a, results)
        name = f"{one_line(run_name(a, c, results))}, {one_line(a.name)}"
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


def run_name(a: Attacks, c: Certificates | None, results: Sequence[Certificates]) -> str:
    """The label of its certificates, if only in another norm; without any, the folder of the run."""
    about = c or next(iter(all_certificates_of(a, results)), None)
    labels = [x for entry, x in zip(results, labels_of(results), strict=True) if entry is about]
    return labels[0] if labels else a.run + f" ({ALARM})" * bool(contradictions(a, None))
