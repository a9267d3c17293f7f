"""A folder belongs to the settings that it was made with: other settings are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.errors import StoreError

# what a manifest of an older version means where it lacks a key: there was no other choice then
_UNSAID: dict[str, Any] = {
    "procedure": "fixed",
    "skip_wrong": False,
    "simultaneous": False,
    "tau": 0.0,
    "norm": "l2",
    "kernels": "auto",
}


def written_out(identity: Mapping[str, Any]) -> dict[str, Any]:
    """With the keys that older versions left out; without `max`, which may grow, and `alpha_each`, which follows."""
    return {name: value for name, value in {**_UNSAID, **identity}.items() if name not in ("alpha_each", "max")}


def require_same(there: Mapping[str, Any], asked: Mapping[str, Any], *, holds: str, advice: str) -> None:
    """Raise an error if they differ: it begins with `holds`, names every difference, and ends with `advice`."""
    differing = [
        f"{key}: {there.get(key)!r} there, {asked.get(key)!r} asked"
        for key in sorted(there.keys() | asked.keys())
        if there.get(key) != asked.get(key)
    ]
    if differing:
        raise StoreError(f"{holds} ({'; '.join(differing)}): {advice}")
