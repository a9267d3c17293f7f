"""Corruption benchmarks (CIFAR-10-C, MNIST-C): mACR and mAcc, the plain means over the corruption types."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothcert.data.corruptions import CORRUPTIONS, benchmarks_of
from smoothcert.errors import ConfigError, StoreError
from smoothcert.progress import noun
from smoothcert.report.measures.analysis import average_certified_radius, clean_accuracy, proved
from smoothcert.report.measures.collapse import collapsed
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import METHODS, method_of, recognised_method
from smoothcert.report.read.names import distinct_names, doubted, one_line
from smoothcert.report.read.reading import read_log
from smoothcert.report.table import Table, marked
from smoothcert.report.tables.corruption_notes import corruption_notes
from smoothcert.statistics.printed import in_percent, number

MEANS = "Means over the types of corruption"
CLEAN = "identity"  # MNIST-C's uncorrupted images: read, but no part of the means


@dataclass(frozen=True)
class Corrupted:
    """The certificates of one model on one corruption; `severity` is None where the benchmark has none.

    `benchmarks` is the one that it is of: none if we do not know it, two if the types of logs fit both.
    """

    model: str
    corruption: str
    severity: int | None
    certificates: Certificates
    benchmarks: tuple[str, ...] = ()

    @property
    def in_means(self) -> bool:
        """A benchmark publishes more types than the 15 of its means; uncorrupted images are in no mean at all."""
        if not self.benchmarks:
            return self.corruption != CLEAN
        return any(self.corruption in CORRUPTIONS[name] for name in self.benchmarks)


@dataclass(frozen=True)
class Means:
    """Over the corruption types of one severity, or over the severities (`severity` None)."""

    severity: int | None
    acr: float
    accuracy: float


def read_corruptions(folder: str | Path) -> list[Corrupted]:
    """Read the field's logs, `severity_K/MODEL/CORRUPTION.tsv`, or `MODEL/CORRUPTION.tsv` without severities.

    A release may have both, where the second are all severities in one: these are left out, with a warning.
    """
    folder = Path(folder)
    graded = sorted(folder.glob("severity_*/*/*.tsv"))
    paths = graded or sorted(folder.glob("*/*.tsv"))
    if not paths:
        raise StoreError(
            f"{folder}: expected logs as severity_K/MODEL/CORRUPTION.tsv or MODEL/CORRUPTION.tsv, found none"
        )
    if others := sorted({*folder.rglob("*.tsv")} - {*paths}):
        layout = "severity_K/MODEL/CORRUPTION.tsv" if graded else "MODEL/CORRUPTION.tsv"
        first = others[0].relative_to(folder).as_posix()
        warnings.warn(
            f"left out: {len(others)} {noun(len(others), 'log')} of {folder} beside those at {layout}, such as {first}",
            stacklevel=2,
        )
    benchmarks = benchmarks_of({path.stem for path in paths}, bool(graded))
    return [
        Corrupted(
            path.parent.name,
            path.stem,
            _severity(path) if graded else None,
            read_log(path),
            benchmarks,
        )
        for path in paths
    ]


def corrupted_stores(results: Sequence[Certificates]) -> list[Corrupted]:
    """Those of our stores that were certified on a corruption benchmark.

    Their manifest has the data set `cifar10-c` or `mnist-c` and the split `TYPE/SEVERITY` or `TYPE`, as
    `smoothcert.data.corruptions` names them. Of several stores of one model and corruption the one with the most
    inputs counts, then with the most samples: a mean has each type once.
    """
    found: dict[tuple[str, str, int | None], Corrupted] = {}
    corrupted = [c for c in results if c.corruption is not None]
    for c, model in zip(corrupted, _model_names(corrupted), strict=True):
        kind, severity = c.corruption or ("", "")
        benchmarks = tuple(name for name in CORRUPTIONS if name == c.identity.get("dataset"))
        entry = Corrupted(
            model, kind, int(severity) if severity.isdecimal() else None, c, benchmarks
        )
        known = found.setdefault((model, kind, entry.severity), entry).certificates
        if (c.rows, c.n or 0) > (known.rows, known.n or 0):
            found[model, kind, entry.severity] = entry
    return list(found.values())


def corruption_means(entries: Sequence[Corrupted], rounded: bool = False) -> dict[str, list[Means]]:
    """For each model: mACR_s = (1/T) sum_t ACR_{t,s} and mAcc_s likewise with CA(0), then their means over s."""
    if not entries:
        raise ConfigError("a corruption benchmark needs at least one log, found none")
    cells: dict[str, dict[int | None, list[tuple[float, float]]]] = {}
    for entry in entries:
        if entry.in_means:
            values = (
                average_certified_radius(entry.certificates, rounded),
                clean_accuracy(entry.certificates),
            )
            cells.setdefault(entry.model, {}).setdefault(entry.severity, []).append(values)
    means: dict[str, list[Means]] = {}
    for model, severities in cells.items():
        graded = [
            Means(severity, *np.mean(severities[severity], axis=0).tolist())
            for severity in sorted(severities, key=lambda s: s or 0)
        ]
        overall = np.mean([(mean.acr, mean.accuracy) for mean in graded], axis=0).tolist()
        means[model] = [
            *(mean for mean in graded if mean.severity is not None),
            Means(None, *overall),
        ]
    return means


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


def _severity(path: Path) -> int:
    match = re.fullmatch(r"severity_(\d+)", path.parent.parent.name)
    if match is None:
        raise StoreError(
            f"{path}: expected a folder severity_K with a number K, found '{path.parent.parent.name}'"
        )
    return int(match[1])


def _model_names(results: Sequence[Certificates]) -> list[str]:
    """The models that stores are about: their run folders, by the parts of the paths that tell them apart."""
    folders = [c.source.resolve() for c in results]
    runs = [f.parent.parent if f.parent.name == "certify" else None for f in folders]
    known = list(dict.fromkeys(run for run in runs if run is not None))
    names = (
        dict(zip(known, distinct_names([(run, None) for run in known]), strict=True))
        if known
        else {}
    )
    return [
        method_of(c) or c.name if run is None else one_line(names[run])
        for c, run in zip(results, runs, strict=True)
    ]
