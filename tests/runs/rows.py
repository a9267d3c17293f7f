"""Rows of certificates made from counts, written into stores, and which of them do not have their check."""

from smoothcert.certification.certifier import certificate_row
from smoothcert.runs.chain import edited_rows
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.rows import COLUMNS
from smoothcert.runs.store import clock
from tests.counted import certified

TAU = 784 * (2 * 255 * 4 + 1) / 2**62  # of integer noise with sigma 0.5 on MNIST
IDENTITY = {
    "sigma": 0.5,
    "n0": 100,
    "n": 1000,
    "alpha": 0.001,
    "noise": "exact",
    "seed": 0,
    "noise_seed": 0,
    "noise_stream": "philox4x32-words-2",
    "simultaneous": False,
    "skip_wrong": False,
    "kernels": "auto",
    "precision": "float32",
    "device_type": "cpu",
    "prepared": [],
    "behaviour": [],
    "dimension": 784,
    "model": "m",
    "network": "torch 2.13:aa",
    "classes": 3,
    "dataset": "nowhere",
    "split": "test",
    "data": "d",
    "start": 0,
    "every": 1,
    "max": None,
}
MANIFEST = Manifest(IDENTITY, 3, {"torch": "2.13"})


def row(index, top=990, seconds=3725.25):
    (certificate,) = certified([90, 10, 0], [top, 0, 1000 - top], tau=TAU)
    return {**certificate_row(certificate, index=index, label=0), "time": clock(seconds)}


def text(index):
    """A row as it is written, but for its check."""
    return "\t".join(str(row(index)[name]) for name in COLUMNS[:-1])


def written_part(store, indices=(0, 1, 2)):
    with store.writer(0, 1) as part:
        for index in indices:
            part.add(row(index))
    return store.folder / "part-0-of-1.tsv"


def edited(store):
    """The lines whose check is wrong."""
    (part,) = store.parts()
    return [part.numbers[place] for place in edited_rows(part, store.manifest())]
