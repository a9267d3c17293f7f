"""Stored counts analysed again: another alpha, another bound or another norm, without a forward pass or PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from smoothcert.config import check_choice
from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import Certificates, read_store
from smoothcert.runs.counts import Counts, Integers, read_counts
from smoothcert.runs.store import ResultStore
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import Law, law_named
from smoothcert.statistics.procedure import ABSTAIN, SPLIT

Bound = Literal["binary", "multiclass"]
Norm = Literal["l2", "linf"]


def reanalyse(
    store: ResultStore | Path | str,
    *,
    alpha: float | None = None,
    bound: Bound = "binary",
    norm: Norm | None = None,
    values: int | None = None,
) -> Certificates:
    """The certificates that the counts of a store prove at `alpha`, by `bound`, in `norm` (default: as certified).

    Where the alpha of a store is for all its inputs together (`simultaneous`), so is the alpha given here.
    Choose alpha, bound and norm before you see results: each answer holds with probability 1 - alpha on its own, the
    best of several does not. For norm "linf", give the number of `values` of an input if the store does not record it.
    """
    folder = store.folder if isinstance(store, ResultStore) else Path(store)
    check_choice("bound", bound, Bound)
    if norm is not None:
        check_choice("norm", norm, Norm)
    stored = original = read_store(folder)
    manifest: dict[str, Any] = stored.manifest or {}
    identity = manifest["identity"]
    if identity.get("procedure", "fixed") != "fixed":
        raise StoreError(
            f"{folder} was certified by the procedure '{identity['procedure']}', which stopped sampling by what it "
            "saw: bounds for a fixed number of samples do not hold for its counts. Certify with a fixed n to "
            "re-analyse, or take its radii as they are"
        )
    law = law_named(stored.law)
    stored = replace(stored, alpha=stored.alpha if alpha is None else bounds.check_alpha(alpha))
    level = bounds.check_alpha(stored.alpha_each or 0.0)
    if stored.counts0 is None or stored.counts is None:
        raise StoreError(f"{folder} has no class counts, so that it cannot be analysed again")
    selected = read_counts(stored.counts0.tolist()).top()
    counted = read_counts(stored.counts.tolist())
    p, radius = _bounds(bound, selected, counted, level, identity, law)
    certified = p >= 0.5 if bound == "binary" else radius > 0
    dimension = _values(folder, manifest, law, values) if norm == "linf" else None
    if dimension is not None:
        radius = bounds.linf_radius(radius, dimension)
    elif norm == "l2" and law.norm != "l2":
        raise ConfigError(f"{law.name} noise gives l1 radii, found norm 'l2' asked: leave norm out")
    predict = np.where(certified, selected, ABSTAIN)
    return replace(
        stored,
        predict=predict,
        radius=np.where(certified, radius, 0.0),
        correct=(predict == stored.label)
        & stored.labelled,  # an abstention, -1, is no missing label
        p_lower=p,
        norm=norm or stored.norm,
        bound=bound,
        dimension=dimension,
        warnings=(*stored.warnings, *_told(identity, stored.alpha, bound)),
        stored=original,
    )


def _told(identity: dict[str, Any], alpha: float | None, bound: Bound) -> list[str]:
    """How the certificates differ from those that were stored."""
    changes = (
        [f"alpha {alpha:g} (certified with {identity['alpha']:g})"]
        if alpha != identity["alpha"]
        else []
    )
    changes += ["the multiclass bound"] if bound == "multiclass" else []
    return [f"stored counts were analysed again with {' and '.join(changes)}"] if changes else []


def _bounds(
    bound: Bound,
    selected: Integers,
    counted: Counts,
    alpha: float,
    identity: dict[str, Any],
    law: Law,
) -> tuple[bounds.Array, bounds.Array]:
    """The lower bound of p_A and the radius of each input: 0 for inputs that were skipped after selection."""
    sigma, slack = identity["sigma"], identity["tau"]
    top, other, drawn = counted.of(selected), counted.largest_but(selected), counted.total()
    sampled, drawn = drawn > 0, np.maximum(drawn, 1)
    if bound == "binary":
        p = np.where(sampled, bounds.lower_bound(top, drawn, alpha, slack), 0.0)
        return p, law.radius(p, sigma)
    p = np.where(sampled, bounds.lower_bound(top, drawn, SPLIT * alpha, slack), 0.0)
    p_b = bounds.upper_bound(other, drawn, (1.0 - SPLIT) * alpha, slack)
    return p, np.where(sampled, law.multiclass_radius(p, p_b, sigma), 0.0)


def _values(folder: Path, manifest: dict[str, Any], law: Law, given: int | None) -> int:
    if law.norm != "l2":
        raise ConfigError(
            f"l-infinity radii follow from l2 radii, found the l1 radii of {law.name} noise"
        )
    return int(given if given is not None else manifest["identity"]["dimension"])
