"""The drawings that `draw` and `report --draw` can make, by name: one entry here is all that a new one needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothcert.errors import ConfigError, none_of
from smoothcert.report.charts.attacks import attack_figure
from smoothcert.report.charts.curves import accuracy_figure, confidence_figure
from smoothcert.report.charts.differences import difference_figure
from smoothcert.report.charts.envelopes import envelope_figure
from smoothcert.report.charts.losses import loss_figure
from smoothcert.report.charts.overlays import overlay_figure
from smoothcert.report.measures.analysis import proved
from smoothcert.report.measures.attack_curves import attack_families
from smoothcert.report.measures.confidence import no_confidence
from smoothcert.report.measures.groups import Grouping
from smoothcert.report.measures.overlays import overlays
from smoothcert.report.measures.pairing import reference_place
from smoothcert.report.read.attacks import Attacks
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.trainings import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Scene:
    """What a drawing is made of."""

    results: Sequence[Certificates]
    rounded: bool = False
    radii: Sequence[float] = ()  # of trade-offs
    by: Grouping = "method"  # of envelopes
    published: Sequence[str] = ()  # names of tables, for trade-offs
    least_accuracy: float = 0.0  # of what trade-offs show
    trainings: Sequence[Training] = ()
    epochs: int | None = None  # how many losses show; None: all
    attacks: Sequence[Attacks] = ()
    reference: str | None = None  # the run that differences are taken to; None: the first


def draw(name: str, scene: Scene) -> Figure:
    """One of `DRAWINGS`; where it cannot be made, the error says what is missing."""
    if name not in DRAWINGS:
        raise none_of("a drawing", name, DRAWINGS)
    if not scene.results and name != "losses":
        raise ConfigError("a figure needs at least one run, found none")
    return DRAWINGS[name](scene)


def _accuracy(scene: Scene) -> Figure:
    return accuracy_figure(scene.results, rounded=scene.rounded)


def _confidence(scene: Scene) -> Figure:
    figure = confidence_figure(scene.results)
    if figure is None:
        raise no_confidence(scene.results, "a drawing")
    return figure


def _attacks(scene: Scene) -> Figure:
    return attack_figure(attack_families(scene.attacks, scene.results))


def _differences(scene: Scene) -> Figure:
    place = reference_place(scene.results, scene.reference)
    return difference_figure(scene.results, place, scene.rounded)


def _envelope(scene: Scene) -> Figure:
    return envelope_figure(scene.results, scene.by, scene.rounded)


def _trade_offs(scene: Scene) -> Figure:
    series = overlays(scene.results, scene.radii, scene.published, scene.rounded)
    down = proved(scene.results, scene.rounded) and not scene.published
    return overlay_figure(series, scene.radii, scene.least_accuracy, scene.rounded, down)


def _losses(scene: Scene) -> Figure:
    return loss_figure(scene.trainings, scene.epochs)


DRAWINGS: dict[str, Callable[[Scene], Figure]] = {
    "accuracy": _accuracy,
    "confidence": _confidence,
    "attacks": _attacks,
    "differences": _differences,
    "envelope": _envelope,
    "trade-offs": _trade_offs,
    "losses": _losses,
}
