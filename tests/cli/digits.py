"""Files of a few digits: mnist-mini has ten thousand, which take a training seconds."""

import numpy as np

from smoothcert.data import load_dataset


def write_digits(path, size):
    """The first of mnist-mini, for training and for testing; returns the labels of those for training."""
    sets = {split: load_dataset("mnist-mini", split) for split in ("train", "test")}
    kinds = ("images", "labels")
    arrays = {
        f"{split}_{kind}": getattr(data, kind)[:size]
        for split, data in sets.items()
        for kind in kinds
    }
    np.savez(path, **arrays)
    return arrays["train_labels"]
