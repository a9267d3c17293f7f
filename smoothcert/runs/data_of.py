"""The data of a run, and that of stored certificates where it is at hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smoothcert.data import Dataset, LazyDataset, load_dataset
from smoothcert.data.corruptions import is_corrupted, load_named, load_stored
from smoothcert.data.picture_labels import require_order
from smoothcert.data.specs import prepared_as
from smoothcert.errors import ConfigError, DataError, SmoothcertError
from smoothcert.runs.folder import ModelSpec, RunFolder


def data_of_run(
    spec: ModelSpec, split: str, data_dir: Path | None, other: str | None = None
) -> Dataset | LazyDataset:
    """The images that a network is described for, or others, prepared alike and numbered by its classes."""
    known: dict[str, Any] = {
        "shape": spec.shape,
        "classes": spec.classes,
        "class_names": spec.class_names,
    }
    if other and is_corrupted(other):
        found = load_named(other, data_dir)
        if split != "test":
            raise ConfigError(f"{other} is of test images, found the split {split}: leave one out")
        if (found.shape, found.classes) != (spec.shape, spec.classes):
            raise ConfigError(
                f"{other} has {found.classes} classes of images {list(found.shape)}, the network "
                f"takes {list(spec.shape)} and has {spec.classes}: take a network for this data"
            )
        require_order(other, found.class_names, spec.class_names)
        return found
    place = prepared_as(spec.dataset, other) if other else spec.dataset
    return load_dataset(place, split, data_dir, **known)


def certified_data(
    store: Path, identity: Mapping[str, Any], data_dir: Path | None
) -> Dataset | LazyDataset:
    """By the name in the manifest of a store; where that is not found, by the place that its run folder names.

    A run folder may be anyone's, so what lies at such a place is taken only if it is what was certified, to the byte.
    """
    name, split, classes, names = (
        identity.get(key) for key in ("dataset", "split", "classes", "class_names")
    )
    known: dict[str, Any] = {
        "classes": classes if isinstance(classes, int) else None,
        "class_names": names if isinstance(names, list) else (),
    }
    try:
        return load_stored(str(name), str(split), data_dir, **known)
    except DataError as error:
        try:
            spec = RunFolder(store.resolve().parent.parent).spec()
            found = load_dataset(
                spec.dataset, str(split), data_dir, False, shape=spec.shape, **known
            )
        except SmoothcertError:
            raise error from None
        if found.name != name or found.fingerprint() != identity.get("data"):
            raise
        return found
