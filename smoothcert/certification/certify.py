"""certify_dataset(): which inputs are missing -> certificates -> store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from smoothcert.certification.certifier import Certifier
from smoothcert.certification.images import Image
from smoothcert.certification.subject import subject
from smoothcert.certification.workers import Local, Make, Read, Workers
from smoothcert.config import CertifyConfig, ExecutorName, check_choice
from smoothcert.data import Dataset, LazyDataset, require_labels
from smoothcert.errors import ConfigError, DataError, NoFunctionError, StoreError
from smoothcert.progress import noun
from smoothcert.runs.check import require_sound
from smoothcert.runs.checks import note_checks
from smoothcert.runs.folder import described
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.seeds import seed_of_store
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from smoothcert.statistics.procedure import Procedure

_RESTORE = "restore the file from a copy, or certify again under another name. No row was added"


def certify_dataset(
    model: nn.Module,
    dataset: Dataset | LazyDataset,
    out: Path | str | ResultStore,
    config: CertifyConfig,
    *,
    selection: Selection | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    quiet: bool = False,
    when_checked: Callable[[], None] | None = None,
) -> ResultStore:
    """Certify the selected inputs into the store at `out`, skipping those that any shard has already done.

    >>> from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_model
    >>> model, test, config = load_model("mini"), load_dataset("mnist-mini"), CertifyConfig(sigma=0.5, n=100)
    >>> store = certify_dataset(model, test, "mini/test", config, selection=Selection(max=2), quiet=True)
    >>> len(store.done())
    2

    With ``config.radii`` it is only decided which of these radii are certified, with as few samples as that needs. With
    ``config.skip_wrong`` there are no estimation samples where the selected class is not the label; such inputs are
    never certified correct, so certified accuracy and average certified radius stay the same. With
    ``config.simultaneous`` all certificates of the index set hold at once with probability 1 - alpha, not each alone.
    With ``executor="ray"`` the workers of a Ray cluster make the rows: of the one at `address` (``"auto"``: the one
    that this machine belongs to), or without one, of a cluster on this machine alone that ends with the call.
    `when_checked` is called when the network has passed its checks, before anything is written.
    """
    chosen = selection or Selection()
    Procedure.of(config)  # refuses what nothing can prove, before anything is loaded
    if config.skip_wrong:
        require_labels(dataset, "skip_wrong")
    if not dataset.classes:
        raise DataError(
            f"{dataset.name} does not say how many classes the network has: load it with classes=..."
        )
    if config.noise != "float" and not dataset.eight_bit:
        raise DataError(
            f"{dataset.name} is not 8-bit data: quantise it, or certify with noise 'float'"
        )
    indices = chosen.indices(len(dataset), f"{dataset.name} ({dataset.split})")
    about = subject(model, dataset, chosen)
    seed = seed_of_store(vars(config), about["model"], about["data"])
    alpha = config.alpha / len(indices) if config.simultaneous else config.alpha
    first = dataset.image(indices[0])
    settings: dict[str, Any] = {"seed": seed, "alpha": alpha, "batch_size": batch_size}
    make = partial(Certifier, model, dataset.classes, config, first, **settings)

    def read(now: Sequence[int]) -> tuple[Sequence[int], list[Image], list[int]]:
        return (
            now,
            [dataset.image(index) for index in now],
            [int(dataset.labels[index]) for index in now],
        )

    store = out if isinstance(out, ResultStore) else ResultStore(Path(out))
    with _workers(executor, make, read, device, address, quiet) as workers:
        if when_checked is not None:
            when_checked()
        about_data = {"licence": dataset.licence, "preparation": dataset.preparation}
        made = {**workers.environment, **{name: text for name, text in about_data.items() if text}}
        identity = {**workers.identity, "noise_seed": seed, **about, **described(store.folder)}
        # rows beside damaged ones would be made for a store that is never verified
        sound = partial(require_sound, advice=_RESTORE)
        store.claim(Manifest(identity, len(indices), made), sound)
        stored = _rows(store)
        what = f"certify {dataset.name} {dataset.split}"
        note = "certified correct" if dataset.labelled else ""
        before = workers.rechecked
        try:
            store.complete(
                chosen.mine(indices),
                chosen,
                workers,
                what=what,
                unit="images",
                note=note,
                quiet=quiet,
            )
        except NoFunctionError as error:
            raise NoFunctionError(f"{error}. {_suspect(store, stored)}") from error
        finally:
            _note(store, chosen, workers, before)
    return store


def _rows(store: ResultStore) -> dict[Path, int]:
    return {path: path.read_bytes().count(b"\n") - 1 for path in store.part_paths()}


def _suspect(store: ResultStore, before: dict[Path, int]) -> str:
    """Which rows the network made before it was found out."""
    made = {path: rows - before.get(path, 0) for path, rows in _rows(store).items()}
    named = [
        f"the last {rows} {noun(rows, 'row')} of {path}" for path, rows in made.items() if rows > 0
    ]
    if not named:
        return "No row was stored"
    return f"It has made {' and '.join(named)} before: do not rely on them, delete the file"


def _note(store: ResultStore, chosen: Selection, workers: Workers, before: tuple[int, int]) -> None:
    rows, differing = (now - then for now, then in zip(workers.rechecked, before, strict=True))
    if rows:
        with suppress(StoreError):  # it decides nothing, and must not hide why certification ended
            note_checks(store.folder, chosen.share, rows, differing)


def _workers(
    executor: ExecutorName,
    make: Make,
    read: Read,
    device: str | torch.device | None,
    address: str | None,
    quiet: bool,
) -> Workers:
    check_choice("executor", executor, ExecutorName)
    if executor == "ray":
        from smoothcert.certification.ray_workers import RayWorkers  # needs an extra

        return RayWorkers(make, read, None if device is None else str(device), address, quiet=quiet)
    if address is not None:
        raise ConfigError(
            f"address {address} is that of a Ray cluster, but the executor is {executor}: name ray"
        )
    return Local(make, read, device)
