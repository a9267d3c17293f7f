"""certify_dataset(): which inputs are missing -> certificates -> store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from smoothcert.certification.certifier import Certifier
from smoothcert.certification.subject import subject
from smoothcert.config import CertifyConfig
from smoothcert.data import Dataset, LazyDataset, require_labels
from smoothcert.errors import DataError
from smoothcert.runs.checks import note_checks
from smoothcert.runs.executor import Here, Row
from smoothcert.runs.seeds import seed_of_store
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import Manifest, ResultStore
from smoothcert.statistics import bounds


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
    alpha = config.alpha / len(indices) if config.simultaneous else config.alpha
    first = dataset.image(indices[0])
    where: dict[str, Any] = {"device": device, "batch_size": batch_size}
    certifier = Certifier(model, dataset.classes, config, first, seed=seed, alpha=alpha, **where)
    if when_checked is not None:
        when_checked()
    store = out if isinstance(out, ResultStore) else ResultStore(Path(out))
    about_data = {"licence": dataset.licence, "preparation": dataset.preparation}
    made = {**certifier.environment, **{name: text for name, text in about_data.items() if text}}
    store.claim(Manifest({**certifier.identity, "noise_seed": seed, **about}, len(indices), made))

    def work(now: Sequence[int]) -> Iterator[Row]:
        labels = [int(dataset.labels[index]) for index in now]
        return certifier.rows(now, [dataset.image(index) for index in now], labels)

    what = f"certify {dataset.name} {dataset.split}"
    note = "certified correct" if dataset.labelled else ""
    try:
        store.complete(chosen.mine(indices), chosen, Here(work), what=what, unit="images", note=note, quiet=quiet)
    finally:
        rows, differing = certifier.rechecked
        if rows:
            note_checks(store.folder, chosen.share, rows, differing)
    return store
