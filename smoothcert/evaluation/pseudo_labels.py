"""Pseudo-labels for self-training: what a network answers to images, without noise.

SmoothAdv (arXiv:1906.04584, appendix E.2) trains on images that a standard network has labelled.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from smoothcert.data import Dataset, LazyDataset
from smoothcert.errors import DataError
from smoothcert.files import atomic_write
from smoothcert.noise.streams import unit_range
from smoothcert.progress import ProgressBar

_AT_ONCE = 256


def write_pseudo_labels(
    model: nn.Module,
    dataset: Dataset | LazyDataset,
    path: Path,
    device: torch.device,
    quiet: bool = False,
) -> np.ndarray:
    """The labels that a network gives the images, [N]; both in a new file for `self_training`."""
    if path.suffix != ".npz" or path.exists():
        raise DataError(f"expected the name of a new .npz file for pseudo-labels, found {path}")
    if not dataset.eight_bit:
        raise DataError(
            f"{dataset.name}: pseudo-labels are of 8-bit images, found floats: store it as uint8"
        )
    size, model = len(dataset), model.eval().to(device)
    images = np.empty((size, *dataset.shape), np.uint8)
    labels = np.empty(size, np.int64)
    with torch.inference_mode(), ProgressBar("label", size, "images", quiet=quiet) as bar:
        for first in range(0, size, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, size))
            images[part] = [dataset.image(i) for i in range(size)[part]]
            x = unit_range(torch.from_numpy(images[part]).to(device))
            labels[part] = model(x).argmax(1).cpu().numpy()
            bar.advance(len(x))
    with atomic_write(path) as file:
        np.savez(file, data=images.transpose(0, 2, 3, 1), extrapolated_targets=labels)
    return labels
