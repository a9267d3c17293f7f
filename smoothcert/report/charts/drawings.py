"""The drawings that `save_figure` and `report --draw` can make, by name: one entry here is all that a new one needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from smoothcert.errors import ConfigError
from smoothcert.report.charts.attacks import attack_chart
from smoothcert.report.charts.chart import Chart
from smoothcert.report.charts.curves import accuracy_chart, confidence_chart
from smoothcert.report.charts.differences import difference_chart
from smoothcert.report.measures.attack_curves import attack_families
from smoothcert.report.measures.pairing import reference_place
from smoothcert.report.read.attacks import Attacks
from smoothcert.report.read.certificates import Certificates


@dataclass(frozen=True)
class Scene:
    """What a drawing is made of."""

    results: Sequence[Certificates]
    rounded: bool = False
    attacks: Sequence[Attacks] = ()
    reference: str | None = None  # the run that differences are taken to; None: the first


def draw(name: str, scene: Scene) -> Chart:
    """One of `DRAWINGS`; where it cannot be made, the error says what is missing."""
    if name not in DRAWINGS:
        raise ConfigError(f"a drawing is one of {', '.join(DRAWINGS)}, found '{name}'; choose one of them")
    if not scene.results:
        raise ConfigError("a figure needs at least one run, found none")
    return DRAWINGS[name](scene)


def _accuracy(scene: Scene) -> Chart:
    return accuracy_chart(scene.results, rounded=scene.rounded)


def _confidence(scene: Scene) -> Chart:
    chart = confidence_chart(scene.results)
    if chart is None:
        raise ConfigError(
            "a drawing of confidence needs a run whose p_A is known, found none: certificates of chosen radii alone, "
            "and logs whose path does not name sigma, do not tell it"
        )
    return chart


def _attacks(scene: Scene) -> Chart:
    return attack_chart(attack_families(scene.attacks, scene.results))


def _differences(scene: Scene) -> Chart:
    place = reference_place(scene.results, scene.reference)
    return difference_chart(scene.results, place, scene.rounded)


DRAWINGS: dict[str, Callable[[Scene], Chart]] = {
    "accuracy": _accuracy,
    "confidence": _confidence,
    "attacks": _attacks,
    "differences": _differences,
}
