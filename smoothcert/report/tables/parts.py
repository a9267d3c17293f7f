"""The tables that `report --tables` can print and write, by name: one entry here is all that a new one needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from smoothcert.errors import ConfigError, none_of
from smoothcert.report.measures.analysis import default_radii
from smoothcert.report.measures.groups import Grouping
from smoothcert.report.measures.pairing import nothing_to_compare, reference_place
from smoothcert.report.read.attacks import Attacks
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of
from smoothcert.report.tables.attacks import attack_table, base_table
from smoothcert.report.tables.confidence import confidence_table
from smoothcert.report.tables.corruptions import (
    Corrupted,
    corruption_table,
    corruption_types_tables,
)
from smoothcert.report.tables.differences import difference_table
from smoothcert.report.tables.envelopes import abstention_table, group_envelope_table
from smoothcert.report.tables.formats import Table
from smoothcert.report.tables.published import published_table
from smoothcert.report.tables.tables import certificate_table, checked_radii


@dataclass(frozen=True)
class Material:
    """What tables are made of; `corrupted` has an entry for each corruption benchmark."""

    results: Sequence[Certificates]
    radii: Sequence[float] | None = None  # None: by data
    rounded: bool = False
    corrupted: Sequence[Sequence[Corrupted]] = ()
    by: Grouping = "method"  # which runs belong together, where the best of several is shown
    attacks: Sequence[Attacks] = ()
    intervals: bool = False  # around measures of one run
    reference: str | None = None  # the run that differences are taken to; None: the first
    published: Sequence[str] = ()  # tables of the papers; none: for each run the preferred ones

    @property
    def labelled(self) -> list[Certificates]:
        return [c for c in self.results if c.labelled]

    def radii_of(self, results: Sequence[Certificates]) -> list[float]:
        return default_radii(results) if self.radii is None else checked_radii(self.radii)

    def compared(self) -> tuple[Sequence[Certificates], int, list[float]]:
        """The runs, the place of the one that others are compared with, and at which radii."""
        return (
            self.results,
            reference_place(self.results, self.reference),
            self.radii_of(self.labelled),
        )


class Part(NamedTuple):
    """How tables of one kind are made, and whether they are shown without being asked for.

    `make` raises ConfigError, and says what is missing, where there can be no such table.
    """

    make: Callable[[Material], list[Table]]
    unasked: Callable[[Material], bool]


def report_tables(material: Material, names: Sequence[str] | None = None) -> dict[str, list[Table]]:
    """The tables of these names in the order of `PARTS`; by default the main one and what was given expressly."""
    unknown = [name for name in names or () if name not in PARTS]
    if unknown:
        raise none_of("a table", unknown[0], PARTS)
    chosen = [
        name
        for name, part in PARTS.items()
        if (part.unasked(material) if names is None else name in names)
    ]
    return {name: PARTS[name].make(material) for name in chosen}


def _certified(material: Material) -> list[Table]:
    table = certificate_table(
        material.results, material.radii, material.rounded, material.intervals
    )
    return [replace(table, caption="Certified accuracy")]


def _shares(material: Material) -> list[Table]:
    """Of runs without labels, whose shares are no accuracies: the main table has them only where all are such."""
    unlabelled = [c for c in material.results if not c.labelled]
    if not unlabelled:
        raise ConfigError(
            "certified shares are for runs without labels, and all of these have labels"
        )
    table = certificate_table(unlabelled, material.radii, material.rounded, material.intervals)
    return [replace(table, caption="Certified shares of the runs without labels")]


def _confidence(material: Material) -> list[Table]:
    return [confidence_table(material.results, material.intervals)]


def _differences(material: Material) -> list[Table]:
    results, place, radii = material.compared()
    table = difference_table(results, place, radii, material.rounded)
    if table is None:
        raise ConfigError(nothing_to_compare(results, place))
    return [table]


def _envelope(material: Material) -> list[Table]:
    results = _enveloped(material, "an envelope needs")
    table = group_envelope_table(results, material.radii_of(results), material.rounded, material.by)
    return [replace(table, caption="Best run for each radius")]


def _abstentions(material: Material) -> list[Table]:
    results = _enveloped(material, "the abstentions of best runs need")
    table = abstention_table(results, material.radii_of(results), material.rounded, material.by)
    return [replace(table, caption="Abstention rate of the best run for each radius")]


def _enveloped(material: Material, what: str) -> list[Certificates]:
    results = material.labelled
    if len(results) < 2:
        found = ", ".join(labels_of(results)) or "none"
        others = f" ({len(material.results) - len(results)} without labels)" * (
            len(results) < len(material.results)
        )
        raise ConfigError(
            f"{what} two runs with labels or more, found {found}{others}: name more of them"
        )
    if len(norms := sorted({c.norm for c in results})) > 1:
        raise ConfigError(
            f"{what} radii in one norm, found {' and '.join(norms)}: name runs of one norm"
        )
    return results


def _corruptions(material: Material) -> list[Table]:
    if not material.corrupted:
        raise ConfigError(
            "a table of corruptions needs certificates of a corruption benchmark: name stores certified with "
            "--data cifar10-c:all, or folders of logs by --corruptions"
        )
    return [corruption_table(entries, material.rounded) for entries in material.corrupted]


def _corruption_types(material: Material) -> list[Table]:
    _corruptions(material)  # where there are none, it says so
    return [
        table
        for entries in material.corrupted
        for table in corruption_types_tables(entries, material.rounded)
    ]


def _attacks(material: Material) -> list[Table]:
    return [attack_table(material.attacks, material.results)]


def _base(material: Material) -> list[Table]:
    return [base_table(material.attacks, material.results)]


def _published(material: Material) -> list[Table]:
    found = published_table(material.results, material.radii, material.published)
    if found is None:
        which = " or ".join(material.published) or "the papers"
        raise ConfigError(
            f"a verdict needs a run that was made as a row of {which} was, found none: "
            "`smoothcert list tables NAME` prints what the rows are"
        )
    return [replace(found, caption="Beside published values, with verdicts")]


def _never(material: Material) -> bool:
    return False


PARTS: dict[str, Part] = {
    "certified": Part(_certified, lambda material: True),
    "shares": Part(
        _shares, lambda material: len(material.labelled) not in (0, len(material.results))
    ),
    "confidence": Part(_confidence, _never),
    "differences": Part(_differences, _never),
    "published": Part(_published, _never),
    "envelope": Part(_envelope, _never),
    "abstentions": Part(_abstentions, _never),
    "attacks": Part(_attacks, lambda material: bool(material.attacks)),
    "base": Part(
        _base,
        lambda material: any(0 in a.radii and a.base_predict is not None for a in material.attacks),
    ),
    "corruptions": Part(_corruptions, lambda material: bool(material.corrupted)),
    "corruption-types": Part(_corruption_types, _never),
}
