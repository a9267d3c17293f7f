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
from smoothcert.report.measures.analysis import average_certified_radius, clean_accuracy
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import method_of
from smoothcert.report.read.names import distinct_names, one_line
from smoothcert.report.read.reading import read_log

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
