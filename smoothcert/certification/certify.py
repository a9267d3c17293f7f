"""certify_dataset(): which inputs are missing -> certificates -> store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from smoothcert.certification.plan import Plan
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.certification.subject import evaluation, subject
from smoothcert.config import CertifyConfig
from smoothcert.data import UNLABELLED, Dataset, LazyDataset, require_labels
from smoothcert.errors import DataError
from smoothcert.kernels.prepare import Prepared
from smoothcert.runs.checks import note_checks
from smoothcert.runs.environment import environment
from smoothcert.runs.seeds import seed_of_store
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import Manifest, ResultStore, Row
from smoothcert.statistics import bounds
from smoothcert.statistics.certificate import Certificate


def certify_dataset(
    model: nn.Module,
    dataset: Dataset | LazyDataset,
    out: Path | str | ResultStore,
    config: CertifyConfig,
    *,
    selection: Selection | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    quiet: bool = False,
    when_checked: Callable[[], None] | None = None,
) -> ResultStore:
    """Certify the selected inputs into the store at `out`, skipping those that any shard has already done.

    >>> certify_dataset(model, load_dataset("mnist", "test"), "runs/a/certify/test", CertifyConfig(sigma=0.5))

    With ``config.radii`` it is only decided which of these radii are certified, with as few samples as that needs. With
    ``config.skip_wrong`` there are no estimation samples where the selected class is not the label; such inputs are
    never certified correct, so certified accuracy and average certified radius stay the same. With
    ``config.simultaneous`` all certificates of the index set hold at once with probability 1 - alpha, not each alone.
    `when_checked` is called when the network has passed its checks, before anything is written.
    """
    chosen = selection or Selection()
    bounds.check_samples(config.n0, config.n, config.alpha)
    if config.skip_wrong:
        require_labels(dataset, "skip_wrong")
    if not dataset.classes:
        raise DataError(f"{dataset.name} does not say how many classes the network has: load it with classes=...")
    if config.noise != "float" and not dataset.eight_bit:
        raise DataError(f"{dataset.name} is not 8-bit data: quantise it, or certify with noise 'float'")
    indices = chosen.indices(len(dataset), f"{dataset.name} ({dataset.split})")
    about = subject(model, dataset, chosen)
    seed = seed_of_store(vars(config), about["model"], about["data"])
    keyed = replace(config, seed=seed, beacon=None)
    smoothed = SmoothedClassifier.of(model, dataset.classes, keyed, device=device, batch_size=batch_size)
    alpha_each = config.alpha / len(indices) if config.simultaneous else config.alpha
    first = dataset.image(indices[0])
    plan = smoothed.plan(first.shape, config.n0, config.n, alpha_each, config.radii, config.tolerance)
    prepared = smoothed.prepare(first)
    if when_checked is not None:
        when_checked()
    store = out if isinstance(out, ResultStore) else ResultStore(Path(out))
    about_data = {"licence": dataset.licence, "preparation": dataset.preparation}
    made = {**environment(smoothed.device), "values": plan.values, "skipped": list(prepared.skipped)}
    made |= {name: text for name, text in about_data.items() if text}
    identity = {**identity_of(config, plan, prepared, smoothed.device), "noise_seed": seed, **about}
    store.claim(Manifest(identity, len(indices), made))

    def work(now: Sequence[int]) -> Iterator[Row]:
        labels = [int(dataset.labels[index]) for index in now]
        images = [dataset.image(index) for index in now]
        certificates = smoothed.certify_planned(images, now, plan, labels if config.skip_wrong else None)
        for index, label, certificate in zip(now, labels, certificates, strict=True):
            yield certificate_row(certificate, index=index, label=label, noise=config.noise, seed=seed)

    what = f"certify {dataset.name} {dataset.split}"
    note = "certified correct" if dataset.labelled else ""
    try:
        store.complete(chosen.mine(indices), chosen, work, what=what, unit="images", note=note, quiet=quiet)
    finally:
        rows, differing = smoothed.rechecked
        if rows:
            note_checks(store.folder, f"{chosen.shard}/{chosen.shards}", rows, differing)
    return store


def identity_of(config: CertifyConfig, plan: Plan, prepared: Prepared, device: torch.device) -> dict[str, Any]:
    """All that decides the rows of a store, except what they are about (`subject`)."""
    entries: Mapping[str, Any] = {
        **vars(config),
        **plan.describe(),
        "alpha_each": plan.alpha,
        "split_alpha": bounds.DEFAULT_SPLIT,
        "tau": plan.slack,
        "norm": bounds.NORMS[plan.law],
        **evaluation(prepared, config.noise, device),
    }
    return {name: value for name, value in entries.items() if value is not None}


def certificate_row(certificate: Certificate, *, index: int, label: int, noise: str, seed: int) -> dict[str, object]:
    """A certificate as a row of a store."""
    return {
        "idx": index,
        "label": label,
        "predict": certificate.predict,
        "radius": certificate.radius,
        "correct": int(certificate.predict == label != UNLABELLED),  # else an abstention, -1, would be right
        "n0": int(certificate.counts0.sum()),
        "n": int(certificate.counts.sum()),
        "counts0": _sparse(certificate.counts0),
        "counts": _sparse(certificate.counts),
        "p_lower": certificate.p_lower,
        "multiclass_radius": certificate.multiclass_radius,
        "noise": noise,
        "seed": seed,
    }


def _sparse(counts: NDArray[np.int64]) -> str:
    """``class:count`` of the classes that were seen, so that 1000 classes do not make long rows."""
    return ",".join(f"{label}:{counts[label]}" for label in np.flatnonzero(counts))
