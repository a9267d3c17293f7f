"""What the main table knows, for programs: plain numbers instead of printed cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

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
from smoothcert.report.measures.bootstrap import Interval
from smoothcert.report.measures.confidence import has_confidence, p_ecdf, saturation
from smoothcert.report.measures.intervals import run_intervals, share_intervals
from smoothcert.report.measures.overlays import Spot, at_least, overlays
from smoothcert.report.measures.pairing import differences, paired, rounding_needed
from smoothcert.report.measures.published_comparison import (
    deviation,
    differences_in_making,
    find_published,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.tables.confidence import LEVELS
from smoothcert.report.tables.corruptions import Corrupted, corruption_means
from smoothcert.report.tables.notes import alarm_notes
from smoothcert.report.tables.tables import certificate_table, checked_radii
from smoothcert.runs.seeds import seed_in
from smoothcert.statistics.printed import doubt

RHO = 0.001  # the chance that more certificates fail than the lower bounds of certified accuracies allow for


def report_values(
    results: Sequence[Certificates],
    radii: Sequence[float] | None = None,
    rounded: bool = False,
    intervals: bool = False,
) -> dict[str, Any]:
    """The rows and the notes of `certificate_table`. Shares are from 0 to 1; NaN stands for what is not known."""
    notes = certificate_table(results, radii, rounded).notes
    radii = default_radii(results) if radii is None else checked_radii(radii)
    rows = [_row(c, radii, rounded, intervals) for c in results]
    return {"radii": list(radii), "rounded": rounded, "rows": rows, "notes": list(notes)}


def corruption_values(entries: Sequence[Corrupted], rounded: bool = False) -> list[dict[str, Any]]:
    """mACR and mAcc of each model at each severity; `severity` None is the mean over all."""
    means = corruption_means(entries, rounded)
    return [{"model": model, **asdict(mean)} for model, found in means.items() for mean in found]


def difference_values(
    results: Sequence[Certificates], reference: int, radii: Sequence[float], rounded: bool = False
) -> dict[str, Any]:
    """What `difference_table` says, with intervals of 95 %."""
    pairs, left_out = paired(results, reference)
    return {
        "reference": results[reference].name,
        "rounded": rounded or rounding_needed(pairs),
        "compared": [
            {
                "name": results[pair.place].name,
                "inputs": pair.run.rows,
                "acr": found.acr.value,
                "acr_interval": _ends(found.acr),
                "accuracies": [
                    {"radius": radius, "difference": each.value, "interval": _ends(each)}
                    for radius, each in zip(radii, found.accuracy, strict=True)
                ],
            }
            for pair, found in differences(pairs, radii, rounded)
        ],
        "left_out": [f"{results[place].name}: {reason}" for place, reason in left_out.items()],
    }


def trade_off_values(
    results: Sequence[Certificates],
    radii: Sequence[float] = (),
    published: Sequence[str] = (),
    rounded: bool = False,
    least_accuracy: float = 0.0,
) -> dict[str, Any]:
    """What the drawing of trade-offs shows: spots of each method along what varies, beside rows of published tables."""
    series, left_out = at_least(overlays(results, radii, published, rounded), least_accuracy)
    return {
        "series": [
            {
                "name": entry.name,
                "method": entry.key,
                "parameter": entry.parameter or None,
                "published": entry.published,
                "notes": list(entry.notes),
                "spots": [_spot(spot, radii) for spot in entry.spots],
            }
            for entry in series
            if entry.spots
        ],
        "left_out": left_out,
    }


def _spot(spot: Spot, radii: Sequence[float]) -> dict[str, Any]:
    clean, acr, *accuracies = spot.values
    return {
        "value": spot.value,
        "clean_accuracy": clean,
        "acr": acr,
        "at_radii": [
            {"radius": r, "accuracy": share} for r, share in zip(radii, accuracies, strict=True)
        ],
    }


def _row(c: Certificates, radii: Sequence[float], rounded: bool, intervals: bool) -> dict[str, Any]:
    known = c.alpha_each is not None and c.labelled
    lower = (
        certified_accuracy_whp(c, radii, rho=RHO, rounded=rounded).tolist()
        if known
        else [None] * len(radii)
    )
    accuracies, shares = (
        of(c, radii, rounded).tolist() for of in (certified_accuracy, certified_share)
    )
    around = (
        run_intervals(c, radii, np.random.default_rng(0), rounded)
        if intervals and c.labelled
        else None
    )
    ends = [_ends(each) for each in around.shares] if around else [None] * len(radii)
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
        "alarms": alarm_notes([c]),
        "norm": c.norm,
        "seed": seed_in(c.identity),
        "training_seed": (c.config or {}).get("seed"),
        "inputs": c.rows,
        "expected": c.expected,
        "partial": c.partial,
        "acr": average_certified_radius(c, rounded),
        "acr_interval": _ends(around.mean) if around else None,
        "labelled": c.labelled,
        "clean_accuracy": clean_accuracy(c) if c.labelled else None,
        "mean_radius": average_radius(c, rounded),
        "abstention_rate": abstention_rate(c),
        "median_radius": median_radius(c),
        "saturation_radius": saturation(c),
        "certified_accuracy": [
            {
                "radius": radius,
                "accuracy": accuracy,
                "interval": interval,
                "lower": bound,
                "share": share,
            }
            for radius, accuracy, interval, bound, share in zip(
                radii, accuracies, ends, lower, shares, strict=True
            )
        ],
        "confidence": _confidence(c, intervals),
        "published": _published(c),
    }


def _confidence(c: Certificates, intervals: bool) -> list[dict[str, Any]] | None:
    """The distribution of the lower bound of p_A, as `confidence_table` shows it; None where it is not known."""
    if not has_confidence(c):
        return None
    shares = p_ecdf(c, LEVELS).tolist()
    ends = (
        [_ends(each) for each in share_intervals(shares, c.rows)]
        if intervals
        else [None] * len(shares)
    )
    return [
        {"p": p, "share": share, "interval": each}
        for p, share, each in zip(LEVELS, shares, ends, strict=True)
    ]


def _ends(interval: Interval) -> list[float]:
    return [interval.low, interval.high]


def _published(c: Certificates) -> dict[str, Any] | None:
    """The row of the papers for the settings of a run; the difference only where both were made alike."""
    row = find_published(c)
    if row is None or row.acr is None:
        return None
    acr, difference = row.acr, None if differences_in_making(c, row) else deviation(c, row).acr
    std = acr.sd if acr.seeds > 1 else None
    return {"acr": acr.value, "std": std, "source": row.cited, "difference": difference}
