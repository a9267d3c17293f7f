"""What several runs of one row give together: means over seeds and over corruptions, and the best of several models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from smoothcert.statistics.value import (
    ABSTENTION,
    ACR,
    CERTIFIED_ACCURACY,
    CLEAN,
    MEAN_ACCURACY,
    MEAN_ACR,
    SPREAD,
    Place,
    Value,
)

_MEANS = {
    (ACR, None): MEAN_ACR,
    (CERTIFIED_ACCURACY, 0.0): MEAN_ACCURACY,
    (SPREAD, None): SPREAD,
}


def over_seeds(values: Iterable[Value]) -> list[Value]:
    """The mean over runs that differ in their seed alone, with their standard deviation; ends are averaged, too."""
    places: dict[Place, list[Value]] = {}
    for value in values:
        places.setdefault(value.place, []).append(value)
    return [
        found[0]._replace(
            value=fmean(v.value for v in found),
            low=fmean(v.low for v in found),
            high=fmean(v.high for v in found),
            sd=stdev(v.value for v in found) if len(found) > 1 else math.nan,
            seeds=len(found),
            images=min(v.images for v in found),
        )
        for found in places.values()
    ]


def over_corruptions(values: Mapping[Place, Value], benchmark: str) -> list[Value]:
    """With the means over the types of corruption at each severity, and over all, where all are there."""
    from smoothcert.data.corruptions import CORRUPTIONS, SEVERITIES

    found, kinds = list(values.values()), CORRUPTIONS.get(benchmark, ())
    graded = [f"/{s}" for s in SEVERITIES] if benchmark == "cifar10-c" else [""]
    for (measure, r), mean in _MEANS.items() if kinds else ():
        parts = {end: [values.get((measure, r, kind + end)) for kind in kinds] for end in graded}
        wanted = {f"severity {end[1:]}": own for end, own in parts.items() if end}
        wanted[""] = [value for own in parts.values() for value in own]
        for on, own in wanted.items():
            known = [value for value in own if value is not None]
            if len(known) == len(own):
                (own_mean,) = over_seeds(value._replace(measure=mean, on=on) for value in known)
                found.append(own_mean._replace(sd=math.nan, seeds=1))
    return found


def best_of(models: Sequence[Mapping[Place, Value]]) -> dict[Place, Value]:
    """At each radius the best model, with its accuracy at 0, and how often it abstains."""
    found: dict[Place, Value] = {}
    for place in {p for model in models for p in model if p[0] == CERTIFIED_ACCURACY}:
        best = max((m for m in models if place in m), key=lambda m: m[place].value)
        others = {
            CLEAN: best.get((CERTIFIED_ACCURACY, 0.0, "")),
            ABSTENTION: best.get((ABSTENTION, None, "")),
        }
        found[place] = best[place]
        for measure, value in others.items():
            if value:
                own = value._replace(measure=measure, r=place[1])
                found[own.place] = own
    return found
