"""Equal-confidence mixing ratios of many images. Each is stored when it is known: a stopped command goes on there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from smoothcert.evaluation.paths import AdversarialPath
from smoothcert.runs.chain import require_unedited
from smoothcert.runs.executor import Here, Row
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.rows import CHECK
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore

RATIOS_VERSION = 1
COLUMNS = ("idx", "label", "answer", "correct", "ratio", "time", CHECK)


def mixing_ratios(
    path_of: Callable[[int], AdversarialPath],
    indices: Sequence[int],
    folder: Path,
    identity: Mapping[str, Any],
    environment: Mapping[str, Any],
    *,
    what: str,
    quiet: bool,
) -> list[float]:
    """The ratios of the images that are answered correctly, in their order; nan where the answer never changes.

    They are kept in `folder`, in a store whose name is a hash of `identity`, which is all that decides a ratio but
    for the index: other settings have a store of their own, and more images are added to the same one.
    """
    identity = {"ratios_version": RATIOS_VERSION, **identity}
    name = sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    store = ResultStore(folder / name, COLUMNS)
    store.claim(Manifest(identity, len(indices), environment))
    for part in store.parts():
        require_unedited(part, store.manifest(), f"delete {store.folder} to make its ratios again")
    store.complete(
        indices,
        Selection(),
        Here(lambda now: _rows(path_of, now)),
        what=what,
        unit="images",
        note="answered correctly",
        quiet=quiet,
    )
    rows = {int(row["idx"]): row for row in store.rows()}
    return [float(rows[index]["ratio"]) for index in indices if rows[index]["correct"] == "1"]


def _rows(path_of: Callable[[int], AdversarialPath], indices: Sequence[int]) -> Iterator[Row]:
    for index in indices:
        path = path_of(index)
        ratio = path.equal_confidence_ratio
        yield {
            "idx": index,
            "label": path.label,
            "answer": path.answer,
            "correct": int(
                path.answer == path.label
            ),  # the ratio is about correct answers that change
            "ratio": float("nan") if ratio is None else ratio,
        }
