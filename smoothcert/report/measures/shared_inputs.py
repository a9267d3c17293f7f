"""Which stores of attacks are drawn together, and the inputs that their curves are about: those that all have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import ConfigError
from smoothcert.progress import noun
from smoothcert.report.read.attacks import Attacks
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import one_line

Attacked = tuple[Attacks, Certificates]
Data = tuple[str, str]
Indices = NDArray[np.int64]


def data_of(c: Certificates) -> Data:
    return one_line(str(c.identity.get("dataset"))), one_line(str(c.identity.get("split")))


def drawn_together(
    found: Sequence[Attacked], labels: Mapping[int, str]
) -> tuple[list[Attacked], dict[Data, Indices], list[str]]:
    """The stores to draw, the certified inputs that all of one data set share, and notes on what that leaves out.

    Each data set has inputs of its own: an index is that of another image elsewhere.
    """
    drawn: list[Attacked] = []
    shared: dict[Data, Indices] = {}
    notes: list[str] = []
    for data in dict.fromkeys(data_of(c) for _, c in found):
        kept, inputs, told = _of_one_data_set(
            [pair for pair in found if data_of(pair[1]) == data], labels
        )
        drawn += kept
        shared[data] = inputs
        notes += told
    if not drawn:
        raise ConfigError(
            "curves of attacks need inputs that are both attacked and certified, found none in "
            f"{', '.join(str(a.source) for a, _ in found)}: certify the images that were attacked"
        )
    return drawn, shared, notes


def _of_one_data_set(
    found: Sequence[Attacked], labels: Mapping[int, str]
) -> tuple[list[Attacked], Indices, list[str]]:
    """As many stores as have an input in common; of several such choices the one with the most inputs, then the first.

    A note for each store that is left out.
    """
    own = [np.intersect1d(a.inputs, c.idx) for a, c in found]
    names = [f"{labels[id(c)]}, {one_line(a.name)}" for a, c in found]
    inputs = np.unique(np.concatenate(own))
    has = np.stack(
        [np.isin(inputs, its) for its in own], axis=1
    )  # a line for each input, a column for each store
    choices, sizes = (values.tolist() for values in np.unique(has, axis=0, return_counts=True))
    ranked = ((sum(stores), size, stores) for stores, size in zip(choices, sizes, strict=True))
    *_, drawn = max(ranked, default=(0, 0, [False] * len(found)))
    shared = inputs[has[:, drawn].all(axis=1)]
    notes = []
    for its, name, kept in zip(own, names, drawn, strict=True):
        if not kept:
            reason = (
                "it has none of the inputs that they are about"
                if len(its)
                else "none of its inputs is certified"
            )
            notes.append(f"{name}: left out of the curves of attacks, since {reason}")
    notes += _few(
        [(name, its) for name, its, kept in zip(names, own, drawn, strict=True) if kept],
        len(shared),
    )
    return [pair for pair, kept in zip(found, drawn, strict=True) if kept], shared, notes


def _few(stores: Sequence[tuple[str, Indices]], shared: int) -> list[str]:
    """A note where fewer than half of the inputs of a store are left, with the stores that have the fewest of them."""
    largest, inputs = max(stores, key=lambda store: len(store[1]), default=("", ()))
    if 2 * shared >= len(inputs):
        return []
    common = [len(np.intersect1d(inputs, its)) for _, its in stores]
    small = [name for (name, _), count in zip(stores, common, strict=True) if count == min(common)]
    return [
        f"curves of attacks are about {shared} of the {len(inputs)} inputs of {largest}, since {' and '.join(small)} "
        f"{noun(len(small), 'has', 'have')} only {min(common)} of them"
    ]
