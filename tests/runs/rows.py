"""Rows of certificates made from counts, written into stores, and which of them the chain of checks breaks at."""

import numpy as np

from smoothcert.certification.certifier import certificate_row
from smoothcert.runs.chain import broken_rows
from smoothcert.runs.rows import COLUMNS
from smoothcert.runs.store import Manifest, clock
from tests.counted import certified

TAU = 784 * (2 * 255 * 4 + 1) / 2**62  # of integer noise with sigma 0.5 on MNIST
IDENTITY = {
    "procedure": "fixed",
    "sigma": 0.5,
    "n0": 100,
    "n": 1000,
    "alpha": 0.001,
    "alpha_each": 0.001,
    "split_alpha": 0.9,
    "tau": TAU,
    "noise": "exact",
    "norm": "l2",
    "seed": 0,
    "noise_seed": 0,
    "simultaneous": False,
    "skip_wrong": False,
    "classes": 3,
    "start": 0,
    "every": 1,
}
MANIFEST = Manifest(IDENTITY, 3, {"torch": "2.13", "values": 784})


def row(index, top=990, seconds=3725.25):
    counts0, counts = np.array([90, 10, 0]), np.array([top, 0, 1000 - top])
    (certificate,) = certified(counts0, counts)
    row = certificate_row(certificate, index=index, label=0, noise="exact", seed=0)
    return {**row, "time": clock(seconds)}


def text(index):
    """A row as it is written, but for its check."""
    return "\t".join(str(row(index)[name]) for name in COLUMNS[:-1])


def chained_part(store, indices=(0, 1, 2)):
    with store.writer(0, 1) as part:
        for index in indices:
            part.add(row(index))
    return store.folder / "part-0-of-1.tsv"


def broken(store):
    """The lines whose check is wrong."""
    (part,) = store.parts()
    return [part.numbers[place] for place in broken_rows(part, store.manifest().identity)]
