"""Accuracy against robustness along a hyperparameter, from the config.yaml of the runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.published.row import method_settings
from smoothcert.report.measures.across_seeds import PROCEDURE
from smoothcert.report.measures.analysis import average_certified_radius, clean_accuracy
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.methods import method_of


@dataclass(frozen=True)
class Point:
    """`run` is the place of the run among those given."""

    value: float
    clean: float
    acr: float
    run: int


@dataclass(frozen=True)
class TradeOff:
    """Runs that differ in one number of their configuration (and in seeds): clean accuracy CA(0) and ACR by value."""

    method: str
    parameter: str
    points: tuple[Point, ...]  # ascending in value


def trade_offs(results: Sequence[Certificates], rounded: bool = False) -> list[TradeOff]:
    """One entry for each number that differs between at least two runs while all else but the seed is equal.

    Runs that tested only some radii have no ACR, and are left out.
    """
    known = [
        place for place, c in enumerate(results) if c.config is not None and c.tested_radii is None
    ]
    settings = {place: _numbers(results[place].config) for place in known}
    found = []
    for parameter in sorted({name for numbers in settings.values() for name in numbers} - {"seed"}):
        groups: dict[str, list[int]] = {}
        for place, numbers in settings.items():
            if parameter in numbers:
                groups.setdefault(_all_but(parameter, results[place]), []).append(place)
        for places in groups.values():
            if len({settings[place][parameter] for place in places}) > 1:
                found.append(_along(parameter, places, results, settings, rounded))
    return found


def _along(
    parameter: str,
    places: Sequence[int],
    results: Sequence[Certificates],
    settings: dict[int, dict[str, float]],
    rounded: bool,
) -> TradeOff:
    points = [
        Point(
            settings[i][parameter],
            clean_accuracy(results[i]),
            average_certified_radius(results[i], rounded),
            i,
        )
        for i in places
    ]
    ordered = tuple(sorted(points, key=lambda point: (point.value, point.run)))
    return TradeOff(
        method_of(results[places[0]]) or "-", parameter.removeprefix("method."), ordered
    )


def _numbers(config: dict[str, Any] | None) -> dict[str, float]:
    return {key: float(value) for key, value in flat(config).items() if is_number(value)}


def flat(config: dict[str, Any] | None) -> dict[str, Any]:
    """`{"sigma": 0.5, "method": {"lam": 5}}` -> `{"sigma": 0.5, "method.lam": 5}`, with the method's defaults."""
    rest = {key: value for key, value in (config or {}).items() if key != "method"}
    return rest | {f"method.{key}": value for key, value in method_settings(config).items()}


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _all_but(parameter: str, c: Certificates) -> str:
    """All settings of a run but `parameter` and the seed, as one text: equal for runs to compare along `parameter`."""
    rest = {key: value for key, value in flat(c.config).items() if key not in (parameter, "seed")}
    identity = c.identity
    # a run trained with another sigma is also certified with it
    procedure = [identity.get(key) for key in PROCEDURE if key != "sigma" or parameter != "sigma"]
    return json.dumps([rest, procedure], sort_keys=True, default=str)
