"""Short names for runs, made from their paths, and labels for legends and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.statistics.printed import doubt

if TYPE_CHECKING:
    from smoothcert.report.read.certificates import Certificates

ALARM = "SOUNDNESS ALARM"
NORMS = {"l1": "ℓ₁", "l2": "ℓ₂", "linf": "ℓ∞"}


def norm_names(norms: Iterable[str], names: Mapping[str, str] = NORMS) -> str:
    """The norms of some runs in words, each once: `ℓ₂`, or `ℓ₁ or ℓ₂`."""
    return " or ".join(names.get(norm, norm) for norm in sorted(set(norms)))


def distinct_names(places: Sequence[tuple[Path, float | None]]) -> list[str]:
    """Name each (path, sigma) by the parts of its path that tell it from the others.

    `fmnist/noise_0.5/cohen/noise_0.5` beside `fmnist/noise_0.5/cat-rs/noise_0.5` becomes `cohen`; the parts
    that only repeat sigma go, for a table has a column for it, and so do those that all share, wherever they stand.
    """
    sigmas = [sigma for _, sigma in places]

    def distinct(parts: Sequence[tuple[str, ...]]) -> bool:
        return all(parts) and len(set(zip(parts, sigmas, strict=True))) == len(places)

    parts = [_without_sigma(path, sigma) for path, sigma in places]
    if not distinct(parts):
        parts = [path.parts for path, _ in places]
    shared = set.intersection(*map(set, parts))
    fewer = [tuple(part for part in own if part not in shared) for own in parts]
    names = ["/".join(own) for own in _branches(fewer if distinct(fewer) else parts)]
    if not distinct(parts):  # only for paths that are equal themselves
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names


def _branches(parts: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Without what all have at their beginning and at their end; and so for those alone that then begin alike."""
    lead = _shared(parts)
    tail = _shared([own[lead:][::-1] for own in parts])
    parts = [own[lead : len(own) - tail] for own in parts]
    for first in dict.fromkeys(own[0] for own in parts):
        alike = [i for i, own in enumerate(parts) if own[0] == first]
        below = [parts[i][1:] for i in alike]
        if 1 < len(alike) < len(parts) and all(below):
            for i, own in zip(alike, _branches(below), strict=True):
                parts[i] = (first, *own)
    return parts


def _without_sigma(path: Path, sigma: float | None) -> tuple[str, ...]:
    def repeats_sigma(part: str) -> bool:
        match = re.fullmatch(r"(?:noise|sigma)_(\d+(?:\.\d+)?)", part)
        return match is not None and float(match[1]) == sigma

    return tuple(part for part in path.parts if not repeats_sigma(part)) or path.parts


def _shared(parts: Sequence[tuple[str, ...]]) -> int:
    """How many leading parts all have in common, leaving at least one to each."""
    limit = min(len(own) for own in parts) - 1
    same = (len({own[i] for own in parts}) == 1 for i in range(limit))
    return next((i for i, equal in enumerate(same) if not equal), limit)


def one_line(name: str, empty: str = "run") -> str:
    """A name without line breaks and control characters: every format and every terminal can print it."""
    return "".join(c for c in " ".join(name.split()) if c.isprintable()) or empty


def labels_of(results: Sequence[Certificates]) -> list[str]:
    """The label of each run in legends, tables and notes."""
    labels = run_labels([c.name for c in results], [c.sigma for c in results])
    return [doubted(label, c) for label, c in zip(labels, results, strict=True)]


def drawn_labels(results: Sequence[Certificates]) -> list[str]:
    """The labels of pictures, which have no notes: they also say which runs are partial."""
    labels = zip(labels_of(results), results, strict=True)
    return [
        f"{label} (partial, {c.rows} of {c.expected} inputs)" if c.partial else label
        for label, c in labels
    ]


def doubted(label: str, *runs: Certificates) -> str:
    """A label of runs, with the doubts that their numbers are under, if any: every legend and table has them then."""
    return label + "".join(f" ({text})" for text in doubts(runs))


def doubts(runs: Iterable[Certificates]) -> list[str]:
    """Each once."""
    found = dict.fromkeys(text for c in runs for text in (doubt(c.noise), ALARM * bool(c.alarms)))
    return [text for text in found if text]


def run_labels(names: Sequence[str], sigmas: Sequence[float | None]) -> list[str]:
    """Each name on one line, with its sigma where the sigmas differ."""
    lines = [one_line(name) for name in names]
    if len(set(sigmas)) == 1:
        return lines
    return [
        line if sigma is None else f"{line} (σ={sigma:g})"
        for line, sigma in zip(lines, sigmas, strict=True)
    ]
