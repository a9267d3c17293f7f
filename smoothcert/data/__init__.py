"""Image sets: files -> `Dataset` (arrays, labels) or `LazyDataset` (read as needed) -> batches on a device.

It does not know which network or method its batches are for. Nothing here imports torch before it is needed, so that
listing data sets on the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcert.data.catalogue import DATASETS, load_dataset
from smoothcert.data.dataset import UNLABELLED, Dataset, from_torch
from smoothcert.data.folder import ImageFolder
from smoothcert.data.lazy import LazyDataset, faults, require_labels, with_classes
from smoothcert.imports import lazy

if TYPE_CHECKING:
    from smoothcert.data.batches import Batch, Batches

__all__ = [
    "DATASETS",
    "UNLABELLED",
    "Batch",
    "Batches",
    "Dataset",
    "ImageFolder",
    "LazyDataset",
    "faults",
    "from_torch",
    "load_dataset",
    "require_labels",
    "with_classes",
]

__getattr__, __dir__ = lazy(__name__, {"Batch": "batches", "Batches": "batches"})
