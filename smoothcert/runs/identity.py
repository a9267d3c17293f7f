"""Whose a folder is: what was asked when it was made must be what is asked now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.errors import StoreError

# what a manifest of an older version means where it does not name a key: there was nothing else to choose
_UNSAID: dict[str, Any] = {
    "procedure": "fixed",
    "skip_wrong": False,
    "simultaneous": False,
    "tau": 0.0,
    "norm": "l2",
    "kernels": "auto",
}


def written_out(identity: Mapping[str, Any]) -> dict[str, Any]:
    """With the keys that older versions left out, and without `alpha_each`, which follows from the others."""
    return {name: value for name, value in {**_UNSAID, **identity}.items() if name != "alpha_each"}


def require_same(there: Mapping[str, Any], asked: Mapping[str, Any], *, holds: str, advice: str) -> None:
    """Refuse to mix: an error that begins with `holds`, names every difference, and ends with `advice`."""
    differing = [
        f"{key}: {there.get(key)!r} there, {asked.get(key)!r} asked"
        for key in sorted(there.keys() | asked.keys())
        if there.get(key) != asked.get(key)
    ]
    if differing:
        raise StoreError(f"{holds} ({'; '.join(differing)}): {advice}")
