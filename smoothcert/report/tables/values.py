"""What the main table knows, for programs: plain numbers instead of printed cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from smoothcert.report.measures.analysis import (
    abstention_rate,
    average_certified_radius,
    average_radius,
    certified_accuracy,
    certified_accuracy_whp,
    certified_share,
    clean_accuracy,
    default_radii,
    median_radius,
)
from smoothcert.report.measures.confidence import saturation
from smoothcert.report.measures.published_comparison import deviation, find_published, measurement_differences
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.tables.corruptions import Corrupted, corruption_means
from smoothcert.report.tables.tables import certificate_table, checked_radii
from smoothcert.runs.seeds import seed_in
from smoothcert.statistics.printed import doubt

RHO = 0.001  # the chance that more certificates fail than the lower bounds of certified accuracies allow for


def report_values(
    results: Sequence[Certificates], radii: Sequence[float] | None = None, rounded: bool = False
) -> dict[str, Any]:
    """The rows and the notes of `certificate_table`. Shares are from 0 to 1; NaN stands for what is not known."""
    notes = certificate_table(results, radii, rounded).notes
    radii = default_radii(results) if radii is None else checked_radii(radii)
    rows = [_row(c, radii, rounded) for c in results]
    return {"radii": list(radii), "rounded": rounded, "rows": rows, "notes": list(notes)}


def corruption_values(entries: Sequence[Corrupted], rounded: bool = False) -> list[dict[str, Any]]:
    """mACR and mAcc of each model at each severity; `severity` None is the mean over all."""
    means = corruption_means(entries, rounded)
    return [{"model": model, **asdict(mean)} for model, found in means.items() for mean in found]


def _row(c: Certificates, radii: Sequence[float], rounded: bool) -> dict[str, Any]:
    known = c.alpha_each is not None and c.labelled
    lower = certified_accuracy_whp(c, radii, rho=RHO, rounded=rounded).tolist() if known else [None] * len(radii)
    accuracies, shares = (of(c, radii, rounded).tolist() for of in (certified_accuracy, certified_share))
    return {
        "name": c.name,
        "source": c.source,
        "dataset": c.identity.get("dataset"),
        "split": c.identity.get("split"),
        "sigma": c.sigma,
        "n0": c.n0,
        "n": c.n,
        "procedure": c.identity.get("procedure", "fixed") if c.manifest else None,
        "alpha": c.alpha,
        "alpha_each": c.alpha_each,
        "noise": c.noise,
        "note": doubt(c.noise) or None,
        "norm": c.norm,
        "seed": seed_in(c.identity),
        "training_seed": (c.config or {}).get("seed"),
        "inputs": c.rows,
        "expected": c.expected,
        "partial": c.partial,
        "acr": average_certified_radius(c, rounded),
        "labelled": c.labelled,
        "clean_accuracy": clean_accuracy(c) if c.labelled else None,
        "mean_radius": average_radius(c, rounded),
        "abstention_rate": abstention_rate(c),
        "median_radius": median_radius(c),
        "saturation_radius": saturation(c),
        "certified_accuracy": [
            {"radius": radius, "accuracy": accuracy, "lower": bound, "share": share}
            for radius, accuracy, bound, share in zip(radii, accuracies, lower, shares, strict=True)
        ],
        "published": _published(c),
    }


def _published(c: Certificates) -> dict[str, Any] | None:
    """The row of the papers for the settings of a run; the difference only where both were measured alike."""
    row = find_published(c)
    if row is None:
        return None
    difference = None if measurement_differences(c, row) else deviation(c, row).acr
    return {"acr": row.reference, "std": row.std, "source": row.source, "difference": difference}
