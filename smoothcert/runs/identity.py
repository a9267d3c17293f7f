"""A folder belongs to the settings that it was made with: other settings are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.runs.seeds import seed_in

# what a manifest of an older version means where it lacks a key: there was no other choice then
_UNSAID: dict[str, Any] = {
    "procedure": "fixed",
    "skip_wrong": False,
    "simultaneous": False,
    "tau": 0.0,
    "norm": "l2",
    "kernels": "auto",
}
_ROUNDING = 1e-3  # of the spread of logits: machines differ in later digits


def written_out(identity: Mapping[str, Any]) -> dict[str, Any]:
    """With the keys that older versions left out; without `max`, which may grow, and `alpha_each`, which follows.

    A seed is compared as the number that keyed the noise, however it came about.
    """
    found = {**_UNSAID, **identity, "noise_seed": seed_in(identity)}
    return {name: value for name, value in found.items() if name not in ("alpha_each", "max", "seed", "beacon")}


def require_same(there: Mapping[str, Any], asked: Mapping[str, Any], *, holds: str, advice: str) -> None:
    """Raise an error if they differ: it begins with `holds`, names every difference, and ends with `advice`."""
    if differing := differences(there, asked, "there", "asked"):
        raise StoreError(f"{holds} ({'; '.join(differing)}): {advice}")


def differences(a: Mapping[str, Any], b: Mapping[str, Any], place_a: str, place_b: str) -> list[str]:
    """Each difference in words, where the two are called by their places."""
    found = []
    for key in sorted(a.keys() | b.keys()):
        one, other = a.get(key), b.get(key)
        if key == "behaviour":
            found += [] if _alike(one, other) else ["behaviour: the network answers probe images differently"]
        elif key == "network" and not networks_compare(one, other) and a.get("behaviour") and b.get("behaviour"):
            continue  # that decides
        elif one != other:
            found.append(f"{key}: {one!r} {place_a}, {other!r} {place_b}")
    return found


def networks_compare(one: object, other: object) -> bool:
    """Whether two entries `network` are made alike, as older versions did not: theirs depend on PyTorch's version."""
    schemes = [value.rpartition(":")[0] for value in (one, other) if isinstance(value, str)]
    return one == other or (len(schemes) == 2 and schemes[0] == schemes[1] != "")


def _alike(there: Any, asked: Any) -> bool:
    """Whether two networks behave alike up to rounding; older versions did not write it down.

    A row is the answer to a probe, which rounding decides at a tie, its largest logit, and other numbers about its
    logits, of which the last is their spread.
    """
    if there is None or asked is None:
        return True
    if (
        list(map(len, there)) != list(map(len, asked))
        or sum(a[0] != b[0] for a, b in zip(there, asked, strict=True)) > 1
    ):
        return False
    return all(
        abs(a - b) <= _ROUNDING * row[-1] + _ROUNDING / 100 * abs(row[1])
        for row, other in zip(there, asked, strict=True)
        for a, b in zip(row[1:], other[1:], strict=True)
    )
