"""Image sets: files -> `Dataset` (arrays, labels) or `ImageFolder` (read as needed) -> batches on a device.

Nothing here imports torch before it is needed, so that listing data sets on the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcert.data.catalogue import DATASETS, load_dataset
from smoothcert.data.dataset import Dataset, from_torch
from smoothcert.data.folder import ImageFolder

if TYPE_CHECKING:
    from smoothcert.data.batches import Batch, Batches

__all__ = ["DATASETS", "Batch", "Batches", "Dataset", "ImageFolder", "from_torch", "load_dataset"]


def __getattr__(name: str) -> Any:
    if name in ("Batch", "Batches"):
        from smoothcert.data import batches

        return getattr(batches, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
