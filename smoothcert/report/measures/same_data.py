"""Whether runs are about the same data: where they are not, there is no best of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.collapse import collapsed
from smoothcert.report.measures.norms import DIMENSIONS
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of, one_line

# How the field's releases call the folders of a data set.
_FOLDERS = {name: name for name in DIMENSIONS} | {
    "fmnist": "fashion-mnist",
    "fashionmnist": "fashion-mnist",
}
DATA = {"dataset": "data sets", "split": "splits"}


class Apart(NamedTuple):
    """Two runs on different data, by their places among those given, and how that is known."""

    one: int
    other: int
    reason: str


def data_apart(results: Sequence[Certificates]) -> Apart | None:
    """Two of the runs whose known data sets or splits differ, or that have other labels at the same indices."""
    for key, words in DATA.items():
        known = {
            str(value): place
            for place, c in enumerate(results)
            if (value := c.identity.get(key)) is not None
        }
        for (ours, one), (theirs, other) in pairwise(known.items()):
            return Apart(
                one,
                other,
                f"were certified on different {words}, {one_line(ours)} and {one_line(theirs)}",
            )
    found = labels_apart(results)
    return Apart(*found, "have other labels at the same indices") if found else None


def known_data(c: Certificates) -> str | None:
    """The data set of a run; of a log the one that its folders name, as those of the field's releases do."""
    stated = c.identity.get("dataset") or (c.config or {}).get("dataset")
    if stated is not None:
        return one_line(str(stated))
    named = {
        _FOLDERS[part.lower()] for part in c.source.resolve().parts if part.lower() in _FOLDERS
    }
    return named.pop() if len(named) == 1 else None


def labels_apart(results: Sequence[Certificates]) -> tuple[int, int] | None:
    """The places of two runs that have other labels at the same indices; runs without labels say nothing of it."""
    different = {
        (c.idx.tobytes(), c.label.tobytes()): place for place, c in enumerate(results) if c.labelled
    }
    if len(different) < 2:
        return None
    places = sorted(different.values())
    idx, label = (
        np.concatenate([getattr(results[i], name) for i in places]) for name in ("idx", "label")
    )
    owner = np.repeat(places, [results[i].rows for i in places])
    order = np.lexsort((label, idx))
    idx, label, owner = idx[order], label[order], owner[order]
    unlike = np.flatnonzero((idx[1:] == idx[:-1]) & (label[1:] != label[:-1]))
    if not len(unlike):
        return None
    one, other = sorted(owner[unlike[0] : unlike[0] + 2].tolist())
    return one, other


def require_same_data(results: Sequence[Certificates], what: str) -> None:
    """Refuse runs on different data, of which there can be no best one; `what` needs them to be on the same."""
    if apart := data_apart(results):
        labels = labels_of(results)
        raise ConfigError(
            f"{what} needs runs of one data set, and {labels[apart.one]} and {labels[apart.other]} {apart.reason}: "
            "name runs of one data set, or group such runs by folder"
        )


def contenders(results: Sequence[Certificates], places: Iterable[int]) -> list[int]:
    """Those of the places whose run may be called the best: never one that answers one class, which wins by luck.

    One that is still being certified takes part only where no complete one does: the best of a few inputs is luck.
    """
    known = [i for i in places if not collapsed(results[i])]
    return [i for i in known if not results[i].partial] or known


def comparable(results: Sequence[Certificates]) -> bool:
    """Whether a best run means something: one norm, one n and alpha, the same data, the complete runs on equal inputs.

    More samples make all radii larger, and so does a larger alpha. Logs do not name theirs, and are taken as they are.
    """
    complete = [c for c in results if not c.partial]
    same_inputs = all(np.array_equal(complete[0].idx, c.idx) for c in complete[1:])
    same_budget = all(
        len({getattr(c, key) for c in results} - {None}) < 2 for key in ("n", "alpha_each")
    )
    one_norm = len({c.norm for c in results}) == 1
    return one_norm and same_budget and same_inputs and data_apart(results) is None
