"""The rows of attacks, typed and checked like those of certificates: one per input and radius."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.errors import StoreError
from smoothcert.runs.identity import one_network
from smoothcert.runs.rows import Column, Lines, converted, number, require_sound, whole

_ANSWERS = ("idx", "label", "radius", "distance", "predict", "correct")
_CERTIFIED = ("certified_predict", "certified_radius")
_BASE = ("base_predict", "votes")
ATTACK_COLUMNS = (*_ANSWERS, *_CERTIFIED, *_BASE, "time")
OLDER_COLUMNS = (*_ANSWERS, *_CERTIFIED, "time")
"""Of stores that do not know what the network itself answers."""

_WHOLE = ("idx", "label", "predict", "correct", *_BASE)
_SAME = ("model", "data", "split", "sigma")
_ROUNDING = 1e-5  # of a distance in float noise, whose attacked images are not of 256 levels


def attack_columns(lines: Lines, identity: Mapping[str, Any]) -> dict[str, Column]:
    """Convert the columns of one part, and refuse what no attack can have written. An unknown certificate is nan."""
    if tuple(lines.header) not in (ATTACK_COLUMNS, OLDER_COLUMNS):
        raise StoreError(
            f"{lines.path} does not start with the header of a store of attacks: move it away"
        )
    cells, width = lines.cells(), len(lines.header)
    columns = {
        name: converted(lines, name, _kind(name), cells[place::width])
        for place, name in enumerate(lines.header)
        if name != "time"
    }
    c = {
        **columns,
        **{name: np.zeros(len(columns["idx"]), np.int64) for name in _BASE if name not in columns},
    }
    classes = identity["classes"]
    answer, proved = c["certified_predict"], c["certified_radius"]
    unknown, radii = (
        np.isnan(answer) & np.isnan(proved),
        [float(radius) for radius in identity["radii"]],
    )
    known_class = (answer >= -1) & (answer < classes) & (answer == np.floor(answer))
    reach = c["radius"] * (1 + _ROUNDING)
    checks = (
        ("idx", c["idx"] >= 0, "an index from 0 on"),
        (
            "label",
            (c["label"] >= 0) & (c["label"] < classes),
            f"one of {classes} classes, from 0 on",
        ),
        ("radius", np.isin(c["radius"], radii), "one of the radii of the manifest"),
        (
            "distance",
            (c["distance"] >= 0) & (c["distance"] <= reach),
            "a distance from 0 to the radius",
        ),
        (
            "predict",
            (c["predict"] >= -1) & (c["predict"] < classes),
            "a class, or -1 for an abstention",
        ),
        (
            "correct",
            c["correct"] == (c["predict"] == c["label"]),
            "1 exactly where predict equals label, else 0",
        ),
        (
            "certified_predict",
            unknown | known_class,
            "a class, -1 for an abstention, or nothing in both columns",
        ),
        (
            "certified_radius",
            unknown | (np.isfinite(proved) & (proved >= 0)),
            "a finite radius of at least 0",
        ),
        ("certified_radius", (answer != -1) | (proved == 0), "0, since the certificate abstains"),
        ("base_predict", (c["base_predict"] >= 0) & (c["base_predict"] < classes), "a class"),
        (
            "votes",
            (c["votes"] >= 0) & (c["votes"] <= identity["n"]),
            f"a number from 0 to n = {identity['n']}",
        ),
    )
    require_sound(lines, [check for check in checks if check[0] in columns])
    return columns


def unlike(attack: Mapping[str, Any], certificates: Mapping[str, Any]) -> list[str]:
    """In what two identities differ that must be about one smoothed classifier, the same images and the l2 norm.

    Where neither says which weights or which data it is about, nothing says that they are the same.
    """
    differing = [name for name in _SAME if attack.get(name) != certificates.get(name)]
    differing += [] if one_network(attack, certificates) else ["network"]
    unknown = [name for name in ("model", "data") if name not in (*differing, *attack)]
    return [*differing, *unknown, *(["norm"] if certificates.get("norm") != "l2" else [])]


def _kind(name: str) -> Any:
    return whole if name in _WHOLE else _number_or_nothing if name in _CERTIFIED else number


def _number_or_nothing(text: str) -> float:
    return number(text or "nan")


def merge_attacks(parts: Sequence[dict[str, Column]], source: Path) -> dict[str, Column]:
    """Join the parts, ordered by index and radius. A row may be there twice if both say the same."""
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in shared}
    order = np.lexsort((columns["radius"], columns["idx"]))
    columns = {name: column[order] for name, column in columns.items()}
    again = np.append(False, (np.diff(columns["idx"]) == 0) & (np.diff(columns["radius"]) == 0))
    for name, column in columns.items():
        before = np.roll(column, 1)
        # nan is like nan
        differs = again & (column != before) & ~((column != column) & (before != before))
        if differs.any():
            row = int(np.argmax(differs))
            raise StoreError(
                f"{source}: index {columns['idx'][row]} is attacked twice at radius {columns['radius'][row]:g} with "
                f"different results ({name} {before[row]} and {column[row]}); keep the row that belongs to this store"
            )
    labels = np.append(False, (np.diff(columns["idx"]) == 0) & (np.diff(columns["label"]) != 0))
    if labels.any():
        raise StoreError(
            f"{source}: index {columns['idx'][int(np.argmax(labels))]} has two different labels"
        )
    return {name: column[~again] for name, column in columns.items()}
