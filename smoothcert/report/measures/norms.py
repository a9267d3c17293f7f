"""The l-infinity radii that the l2 radii of a log contain. Logs do not say how many values their inputs have."""

from __future__ import annotations

from dataclasses import replace

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import linf_radius
from smoothcert.report.read.certificates import Certificates

# How the field's releases call the folders of a data set -> values of an input as it is certified.
DIMENSIONS = {
    "mnist": 784,
    "fmnist": 784,
    "fashion-mnist": 784,
    "fashionmnist": 784,
    "cifar10": 3072,
    "cifar100": 3072,
    "imagenet": 150528,
}


def log_in_linf(c: Certificates, dimension: int | None = None) -> Certificates:
    """The certificates of a log with radii R / sqrt(d); without `dimension`, d follows from the folders of the log."""
    named = {
        part.lower(): DIMENSIONS[part.lower()]
        for part in c.source.resolve().parts
        if part.lower() in DIMENSIONS
    }
    if dimension is None and len(set(named.values())) != 1:
        found = (
            f"its folders name {' and '.join(sorted(named))}"
            if named
            else "its folders name no data set"
        )
        raise ConfigError(
            f"{c.source}: l-infinity radii need the number of values of an input, and {found}: give the dimension "
            "(dimension), for example 3072 for CIFAR-10 or 784 for MNIST"
        )
    d = next(iter(named.values())) if dimension is None else dimension
    told = f", as the folder '{next(iter(named))}' says" if dimension is None else ""
    note = f"l-infinity radii from l2 radii of inputs with {d} values{told}"
    return replace(
        c, radius=linf_radius(c.radius, d), norm="linf", dimension=d, warnings=(*c.warnings, note)
    )
