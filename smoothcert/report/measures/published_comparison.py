"""A run beside its published row: which row that is, the difference, and whether both were made alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.published.rows import PublishedRow, budget, rows_of, training_differences
from smoothcert.report.measures.analysis import average_certified_radius, is_rounded
from smoothcert.report.read.certificates import Certificates

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


def find_published(c: Certificates) -> PublishedRow | None:
    """The published row of a run, if there is one for its settings; logs without a config.yaml have none.

    Of several rows for the same settings, the one on as many inputs as the run is taken, else the first.
    """
    config = c.config or {}
    if c.sigma != config.get(
        "sigma"
    ):  # no published row was certified with another noise than trained with
        return None
    if c.identity.get("dataset", config.get("dataset")) != config.get(
        "dataset"
    ):  # nor on other data
        return None
    fits, size = rows_of(config), c.expected or c.rows
    return next((row for row in fits if row.inputs == size), fits[0] if fits else None)


def deviation(c: Certificates, row: PublishedRow) -> Deviation:
    """ACR - published, and (ACR - mean) / std over the published seeds; radii rounded as published ones are."""
    difference = average_certified_radius(c, rounded=True) - row.reference
    return Deviation(difference, difference / row.std if row.std else None)


def differences_in_making(c: Certificates, row: PublishedRow) -> list[str]:
    """How a run was trained and measured otherwise than its published row. If none, their ACRs can be compared."""
    return [*training_differences(c.config or {}, row), *measurement_differences(c, row)]


def measurement_differences(c: Certificates, row: PublishedRow) -> list[str]:
    """How the measurement of a run differs from its published row's."""
    measured = (
        ("split", c.identity.get("split"), "test"),
        ("inputs", c.rows, row.inputs),
        *([("images", *places)] if (places := _other_images(c, row)) else []),
        ("n", c.n, budget().n),
        ("alpha", c.alpha_each, budget().alpha),
        ("tolerance", c.identity.get("tolerance"), 0),
        ("bound", c.bound, "binary"),
        ("norm", c.norm, "l2"),
        ("radii", "all" if c.tested_radii is None else "some", "all"),
    )
    return [
        f"{name} = {ours} here, {theirs} there"
        for name, ours, theirs in measured
        if ours is not None and ours != theirs
    ]


def _other_images(c: Certificates, row: PublishedRow) -> tuple[str, str] | None:
    """As many images as the row has but not the same, from the last on that both begin with: ours, and the row's."""
    if c.rows != row.inputs:
        return None
    from smoothcert.data import DATASETS

    every = row.every or DATASETS[row.dataset].test_size // row.inputs
    unlike = np.flatnonzero(c.idx != np.arange(row.inputs) * every)
    if not len(unlike):
        return None
    first = max(0, int(unlike[0]) - 1)
    ours, theirs = (
        c.idx[first : first + 3].tolist(),
        [every * place for place in range(first, row.inputs)][:3],
    )
    return f"{', '.join(map(str, ours))}, ...", f"{', '.join(map(str, theirs))}, ..."


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
