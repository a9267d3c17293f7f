"""A run beside its published row: which row that is, the difference, and whether both were made alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcert.published.catalogue import rows_for
from smoothcert.published.row import Row
from smoothcert.report.measures.analysis import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
    input_radii,
    is_rounded,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.statistics.value import ABSTENTION, ACR, CERTIFIED_ACCURACY, SPREAD, Value

OF_ROUNDED = (
    "differences to published values are taken with radii rounded to 3 significant digits, as theirs are, and so not "
    "with the ACR shown here"
)


@dataclass(frozen=True)
class Deviation:
    """Ours minus published ACR; `deviations` is that in standard deviations over seeds, where published."""

    acr: float
    deviations: float | None

    def printed(self) -> str:
        return f"{self.acr:+.3f}" if self.deviations is None else f"{self.deviations:+.1f} s.d."


def rows_like(c: Certificates) -> list[Row]:
    """The published rows with an ACR for the settings of a run, the preferred first; for most logs none.

    Of rows for the same settings, those on as many images as the run, else those on as many as the first.
    """
    config = c.config or {}
    known = config.get("sigma"), config.get("dataset")
    if known != (c.sigma, c.identity.get("dataset", config.get("dataset"))):
        return []  # no row was certified with other noise than trained with, nor on other data
    found, size = [row for row in rows_for(config) if row.acr], c.expected or c.rows
    on_as_many = [row for row in found if row.images == size]
    return on_as_many or [row for row in found if row.images == found[0].images]


def find_published(c: Certificates) -> Row | None:
    """The row whose ACR stands beside that of a run: a mean over seeds where there is one, else a single run."""
    rows = rows_like(c)
    return next((row for row in rows if row.acr and row.acr.seeds > 1), rows[0] if rows else None)


def deviation(c: Certificates, row: Row) -> Deviation:
    """ACR - published, and (ACR - mean) / std over the published seeds; radii rounded as published ones are."""
    acr = row.acr
    assert acr is not None
    difference = average_certified_radius(c, rounded=True) - acr.value
    return Deviation(difference, difference / acr.sd if acr.sd > 0 else None)


def settings_of(c: Certificates) -> dict[str, Any]:
    """Those of its certification, as `Row.differences` reads them."""
    tested = None if c.tested_radii is None else list(c.tested_radii)
    return {
        **c.identity,
        "sigma": c.sigma,
        "n": c.n,
        "alpha": c.alpha_each,
        "simultaneous": False,
        "bound": c.bound,
        "norm": c.norm,
        "radii": tested,
        "images": c.rows,
        "idx": c.idx,
    }


@dataclass(frozen=True)
class Shown:
    """What a run gives, as it is judged."""

    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    values: tuple[Value, ...]
    beside: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)


def measured(c: Certificates, radii: Sequence[float]) -> Shown:
    """With radii rounded as published ones are; nothing is known between those that a store tested alone."""
    own = np.where(c.correct, input_radii(c, rounded=True), 0.0)
    shares = certified_accuracy(c, radii, rounded=True).tolist()
    found: list[tuple[str, float, float | None]] = [(ABSTENTION, abstention_rate(c), None)]
    found += [(CERTIFIED_ACCURACY, share, r) for r, share in zip(radii, shares, strict=True)]
    if c.tested_radii is None:
        found += [(ACR, float(own.mean()), None), (SPREAD, float(own.std()), None)]
    values = (Value(c.name, measure, v, r, images=c.rows) for measure, v, r in found if v == v)
    return Shown(c.config or {}, settings_of(c), tuple(values))


def differences_in_making(c: Certificates, row: Row) -> list[str]:
    """How a run was trained and measured otherwise than its published row. If none, their ACRs can be compared."""
    settings = settings_of(c)
    return [*row.differences(c.config or {}, settings), *row.other_images(settings)]


def published_notes(
    results: Sequence[Certificates], labels: Sequence[str], rounded: bool = False
) -> list[str]:
    """Notes on runs that were not made as their published rows were, the notes of these rows, and `OF_ROUNDED`."""
    labels_by_difference: dict[
        str, list[str]
    ] = {}  # one note for all runs with the same differences
    notes = []
    unlike = False
    for c, label in zip(results, labels, strict=True):
        row = find_published(c)
        if row is None:
            continue
        if differs := differences_in_making(c, row):
            labels_by_difference.setdefault("; ".join(differs), []).append(label)
        elif not rounded and not is_rounded(c):
            unlike = True
        if row.note:
            notes.append(f"{label}, published value: {row.note}")
    return [
        f"{', '.join(runs)}: not trained or measured as the published value ({differs}), so no difference is shown"
        for differs, runs in labels_by_difference.items()
    ] + [*([OF_ROUNDED] if unlike else []), *notes]
