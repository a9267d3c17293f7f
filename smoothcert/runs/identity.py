"""A folder belongs to the settings that it was made with: other settings are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from smoothcert.errors import StoreError

_ROUNDING = 1e-3  # of the spread of logits: machines differ in later digits


def written_out(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same. `max` may grow, and a seed is the number that keyed the noise."""
    return {name: value for name, value in identity.items() if name not in ("max", "seed")}


def digest_of(identity: Mapping[str, Any], inputs: int) -> str:
    """A hash of all that decides the rows of a store, but for what machines may say otherwise.

    These are PyTorch's words for the network and the late digits of its answers. How many inputs
    there are decides only where they share one alpha.
    """
    decides = written_out(identity)
    decides = {k: v for k, v in decides.items() if k not in ("network", "behaviour")}
    if identity.get("simultaneous"):
        decides["inputs"] = inputs
    return sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def require_same(
    there: Mapping[str, Any], asked: Mapping[str, Any], *, holds: str, advice: str
) -> None:
    """Raise an error if they differ: it begins with `holds`, names every difference, and ends with `advice`."""
    if differing := differences(there, asked, "there", "asked"):
        raise StoreError(f"{holds} ({'; '.join(differing)}): {advice}")


def differences(
    a: Mapping[str, Any], b: Mapping[str, Any], place_a: str, place_b: str
) -> list[str]:
    """Each difference in words, where the two are called by their places."""
    found = []
    for key in sorted(a.keys() | b.keys()):
        one, other = a.get(key), b.get(key)
        if key == "behaviour":
            found += (
                []
                if _alike(one, other)
                else ["behaviour: the network answers probe images differently"]
            )
        elif key == "network":
            found += (
                [] if one_network(a, b) else [f"network: {one!r} {place_a}, {other!r} {place_b}"]
            )
        elif one != other:
            found.append(f"{key}: {one!r} {place_a}, {other!r} {place_b}")
    return found


def one_network(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two identities are of networks with the same layers, as far as they tell.

    They tell it by a hash of PyTorch's words, which another version of PyTorch may choose
    otherwise. Then the networks' behaviour decides.
    """
    one, other = a.get("network"), b.get("network")
    if not (isinstance(one, str) and isinstance(other, str)):
        return one == other
    (version, words), (other_version, other_words) = (
        one.rpartition(":")[::2],
        other.rpartition(":")[::2],
    )
    if words == other_words or version == other_version:
        return words == other_words
    return bool(a.get("behaviour") and b.get("behaviour")) and _alike(
        a["behaviour"], b["behaviour"]
    )


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
