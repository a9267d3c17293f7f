"""Means over the types of a corruption benchmark, and what they are means of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.data.corruptions import CORRUPTIONS
from smoothcert.errors import ConfigError
from smoothcert.report.corruption_notes import corruption_notes
from smoothcert.report.measures.analysis import average_certified_radius, clean_accuracy, proved
from smoothcert.report.measures.collapse import collapsed
from smoothcert.report.measures.corrupted import CLEAN, Corrupted, corruption_means
from smoothcert.report.read.methods import METHODS, recognised_method
from smoothcert.report.read.names import doubted
from smoothcert.report.table import Table, marked
from smoothcert.report.view import View
from smoothcert.statistics.printed import in_percent, number

if TYPE_CHECKING:
    from smoothcert.report.report import Report


MEANS = "Means over the types of corruption"


def corruption_table(entries: Sequence[Corrupted], rounded: bool = False) -> Table:
    """One row per model: mACR at each severity and over all, then mAcc in %, as the field prints them."""
    found, down = corruption_means(entries, rounded), _proved(entries, rounded)
    means = {model: found.get(model, []) for model in _models(entries)}
    severities = sorted(
        {mean.severity for row in means.values() for mean in row if mean.severity is not None}
    )
    rows = []
    for model, row in means.items():
        at = {mean.severity: mean for mean in row}
        chosen = [at.get(severity) for severity in (*severities, None)]
        acr = ["-" if mean is None else number(mean.acr, 3, down) for mean in chosen]
        accuracy = ["-" if mean is None else in_percent(mean.accuracy, down) for mean in chosen]
        rows.append((_shown(model, entries), *acr, *accuracy))
    names = [f"{measure} {severity}" for measure in ("ACR", "acc %") for severity in severities]
    head = ("model", *names[: len(severities)], "mACR", *names[len(severities) :], "mAcc %")
    places = _contenders(list(means), entries)
    best = [(i, j) for j in range(1, len(head)) for i in _largest([row[j] for row in rows], places)]
    return Table(
        head,
        marked(rows, lambda i, j: (i, j) in best),
        notes=tuple(corruption_notes(entries, rounded)),
        caption=MEANS,
    )


def corruption_types_table(
    entries: Sequence[Corrupted],
    severity: int | None = None,
    *,
    accuracy: bool = False,
    rounded: bool = False,
) -> Table:
    """One row per corruption type, one column per model: ACR, or clean accuracy in %; then the means.

    Types that are in no mean stand below it; uncorrupted images are no corruption.
    """
    at_severity = [entry for entry in entries if entry.severity == severity]
    chosen = [entry for entry in at_severity if entry.corruption != CLEAN]
    if not chosen:
        known = sorted({str(entry.severity) for entry in entries})
        raise ConfigError(f"no certificates of severity {severity}; known: {', '.join(known)}")
    models, down = _models(chosen), _proved(chosen, rounded)
    values = {
        (entry.corruption, entry.model): clean_accuracy(entry.certificates)
        if accuracy
        else average_certified_radius(entry.certificates, rounded)
        for entry in chosen
    }

    def shown(value: float | None) -> str:
        if value is None:
            return "-"
        return in_percent(value, down) if accuracy else number(value, 3, down)

    def row(name: str) -> tuple[str, ...]:
        return (name, *(shown(values.get((name, model))) for model in models))

    counted = _types([entry for entry in chosen if entry.in_means])
    columns = [
        [values[name, model] for name in counted if (name, model) in values] for model in models
    ]
    means = [float(np.mean(column)) if column else None for column in columns]
    rows = [*map(row, counted), ("mAcc %" if accuracy else "mACR", *map(shown, means))]
    rows += map(row, _types([entry for entry in chosen if not entry.in_means]))
    places = _contenders(models, chosen)
    best = [(i, 1 + j) for i, cells in enumerate(rows) for j in _largest(cells[1:], places)]
    measure = "Accuracy in %" if accuracy else "Average certified radius"
    short = "accuracy %" if accuracy else "ACR"  # CSV has no caption
    return Table(
        (
            short if severity is None else f"{short}, severity {severity}",
            *(_shown(model, chosen) for model in models),
        ),
        marked(rows, lambda i, j: (i, j) in best),
        notes=tuple(corruption_notes(at_severity, rounded and not accuracy)),
        caption=f"{measure} by type of corruption"
        + ("" if severity is None else f", severity {severity}"),
    )


def corruption_types_tables(entries: Sequence[Corrupted], rounded: bool = False) -> list[Table]:
    """For each severity the ACR by type of corruption, then the accuracy."""
    severities = sorted(
        {entry.severity for entry in entries if entry.corruption != CLEAN}, key=lambda s: s or 0
    )
    return [
        corruption_types_table(entries, severity, accuracy=accuracy, rounded=rounded)
        for severity in severities
        for accuracy in (False, True)
    ]


def _models(entries: Sequence[Corrupted]) -> list[str]:
    """Each model once, in the order of the methods; those of unknown methods last, as they were found."""
    methods = {entry.model: recognised_method(entry.model.split("/")) for entry in entries}
    return sorted(
        methods,
        key=lambda model: METHODS.index(found) if (found := methods[model]) in METHODS else 99,
    )


def _types(entries: Sequence[Corrupted]) -> list[str]:
    """Each type once, in the order of its benchmark."""
    found = list(dict.fromkeys(entry.corruption for entry in entries))
    known = next((types for types in CORRUPTIONS.values() if {*found} <= {*types}), ())
    return sorted(found, key=known.index) if known else found


def _contenders(models: Sequence[str], entries: Sequence[Corrupted]) -> list[int]:
    """The places of models that may be called the best: all their certificates are complete, and of several classes."""
    out = {e.model for e in entries if e.certificates.partial or collapsed(e.certificates)}
    return [place for place, model in enumerate(models) if model not in out]


def _largest(cells: Sequence[str], places: Sequence[int]) -> list[int]:
    """Where the largest of several numbers stands, as printed, among these places; ties share it."""
    numbers = {place: float(cells[place]) for place in places if cells[place] not in ("", "-")}
    return [
        place
        for place, value in numbers.items()
        if len(numbers) > 1 and value == max(numbers.values())
    ]


def _proved(entries: Sequence[Corrupted], rounded: bool) -> bool:
    return proved([entry.certificates for entry in entries], rounded)


def _shown(model: str, entries: Sequence[Corrupted]) -> str:
    """The name of a model, with the doubt that its certificates are under, if any."""
    return doubted(model, *(e.certificates for e in entries if e.model == model))


def _tables(report: Report) -> list[Table]:
    if not report.corrupted:
        raise ConfigError(
            "a table of corruptions needs certificates of a corruption benchmark: name stores certified with "
            "--data cifar10-c:all, or folders of logs by --corruptions"
        )
    return [corruption_table(entries, report.options.rounded) for entries in report.corrupted]


def _type_tables(report: Report) -> list[Table]:
    _tables(report)  # where there are none, it says so
    return [
        table
        for entries in report.corrupted
        for table in corruption_types_tables(entries, report.options.rounded)
    ]


VIEW = View(
    "corruptions",
    "Corruptions",
    "means over the types of a corruption benchmark",
    _tables,
    how=lambda report: (
        "The *mACR* is the mean of the average certified radii over the types of corruption, *mAcc* that of the "
        "accuracies at r = 0. Bold: the best of several models."
    ),
    unasked=lambda report: bool(report.corrupted),
)
TYPES = View(
    "corruption-types",
    "Types of corruption",
    "ACR and accuracy by type of corruption",
    _type_tables,
)
