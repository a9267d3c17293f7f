"""Runs beside a reference, input by input: which of them can be compared with it, and on which inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import is_rounded
from smoothcert.report.measures.bootstrap import Difference, paired_bootstrap
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of


@dataclass(frozen=True)
class Pair:
    """A run and the reference, both on the inputs that they have in common; `place` is the run's among those given."""

    place: int
    run: Certificates
    reference: Certificates

    @property
    def tested(self) -> list[float] | None:
        """The radii that both know, where one of them tested some only; None if both know all."""
        return _tested(self.run, self.reference)


def reference_place(results: Sequence[Certificates], name: str | None) -> int:
    """The place of the run of this name, as tables print it; without a name, the first that has labels."""
    if name is None:
        return next((i for i, c in enumerate(results) if c.labelled), 0)
    labels = labels_of(results)
    found = [i for i, c in enumerate(results) if name in (c.name, labels[i])]
    if len(found) != 1:
        which = "no run has" if not found else f"{len(found)} runs have"
        raise ConfigError(
            f"the reference is one of the runs {', '.join(labels)}, and {which} the name '{name}'"
        )
    return found[0]


def paired(results: Sequence[Certificates], reference: int) -> tuple[list[Pair], dict[int, str]]:
    """Each run that can be compared with the reference, and for each other one why it cannot be."""
    base = results[reference]
    pairs, left_out = [], {}
    for place, c in enumerate(results):
        if place == reference:
            continue
        if reason := _apart(c, base):
            left_out[place] = reason
            continue
        _, own, theirs = np.intersect1d(c.idx, base.idx, assume_unique=True, return_indices=True)
        if len(own) == 0:
            left_out[place] = "no input in common"
        elif not np.array_equal(c.label[own], base.label[theirs]):
            left_out[place] = "other labels at the same indices"
        else:
            pairs.append(Pair(place, _on(c, base), _on(base, c)))
    return pairs, left_out


def rounding_needed(pairs: Sequence[Pair]) -> bool:
    """Whether some runs have radii of 3 digits and others exact ones, so that rounding alone makes a difference."""
    return len({is_rounded(c) for pair in pairs for c in (pair.run, pair.reference)}) > 1


def differences(
    pairs: Sequence[Pair], radii: Sequence[float], rounded: bool = False, seed: int = 0
) -> list[tuple[Pair, Difference]]:
    """Each run minus the reference, by the same resamples for each; all radii rounded where some are."""
    rounded = rounded or rounding_needed(pairs)
    return [
        (
            pair,
            paired_bootstrap(
                pair.run,
                pair.reference,
                np.random.default_rng(seed),
                radii=radii,
                resamples=1000,
                rounded=rounded,
            ),
        )
        for pair in pairs
    ]


def nothing_to_compare(results: Sequence[Certificates], reference: int) -> str:
    """What is missing where no run can be compared with the reference."""
    labels, (_, left_out) = labels_of(results), paired(results, reference)
    reasons = "; ".join(f"{labels[place]}: {reason}" for place, reason in left_out.items())
    return (
        f"differences need a run with labels beside {labels[reference]}, on images that both have certified"
        f"{f' ({reasons})' if reasons else ', found no other run'}"
    )


def _apart(c: Certificates, base: Certificates) -> str:
    """Why two runs cannot be compared whatever their inputs are, or nothing."""
    if not (c.labelled and base.labelled):
        return "no labels"
    if c.norm != base.norm:
        return f"radii in {c.norm} norm, not {base.norm}"
    for key, words in (("dataset", "data set"), ("split", "split")):
        ours, theirs = c.identity.get(key), base.identity.get(key)
        if None not in (ours, theirs) and ours != theirs:
            return f"another {words}, {ours}"
    return "no radius that both have tested" if _tested(c, base) == [] else ""


def _tested(c: Certificates, base: Certificates) -> list[float] | None:
    lists = [set(radii) for radii in (c.tested_radii, base.tested_radii) if radii is not None]
    return sorted(set.intersection(*lists)) if lists else None


def _on(c: Certificates, other: Certificates) -> Certificates:
    """A run on the inputs that another one has too."""
    return c if np.array_equal(c.idx, other.idx) else c.where(np.isin(c.idx, other.idx))
