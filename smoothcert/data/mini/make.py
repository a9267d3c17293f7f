"""Make mnist-mini from MNIST: ``python -m smoothcert.data.mini.make MNIST_FOLDER [OUT_FOLDER]``.

The first 1,000 training and 100 test images of each digit, in MNIST's own order.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from smoothcert.data.idx import read_idx, write_idx

PER_CLASS = {"train": 1_000, "t10k": 100}


def first_of_each(labels: np.ndarray, count: int) -> np.ndarray:
    """Positions of the first `count` of each label, in increasing order."""
    return np.sort(
        np.concatenate([np.flatnonzero(labels == label)[:count] for label in np.unique(labels)])
    )


def make(source: Path, out: Path) -> None:
    """Write the four files of mnist-mini into `out`."""
    for prefix, count in PER_CLASS.items():
        names = f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"
        images, labels = (read_idx(source / name) for name in names)
        chosen = first_of_each(labels, count)
        for name, array in zip(names, (images, labels), strict=True):
            write_idx(out / name, array[chosen])


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent)
