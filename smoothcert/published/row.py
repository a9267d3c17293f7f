"""A printed row: the settings that gave it, its values, and how a run of ours was made otherwise."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from smoothcert.recipes.shipped import changed, shipped_settings
from smoothcert.statistics.saturation import saturation_radius
from smoothcert.statistics.value import ACR, CERTIFIED_ACCURACY, Value

N0, N, ALPHA, DIGITS = 100, 100_000, 0.001, 3
"""With what all published values were measured, and to how many significant digits their radii were rounded."""

_TRAINING = {
    *("epochs", "batch_size", "optimizer", "lr", "momentum", "nesterov", "weight_decay"),
    *("lr_step", "lr_factor", "lr_late", "lr_drops", "model_options", "normalisation", "augment"),
    "as_printed",
}
# of soft labels, by no paper
_FREE = {"n", "folder", "settings", "seed", "precision", "kernels", "evaluate_every"}
# of a certification, beside the images: what our settings call it, and how all published values were made
_MEASURED = {
    "n": N,
    "alpha": ALPHA,
    "tolerance": 0,
    "bound": "binary",
    "norm": "l2",
    "radii": "all",
}


@dataclass(frozen=True)
class Row:
    """A model, which is a recipe with changes, or for each radius the best (`best_of`) of several models.

    `starts_from` has the `recipe` and the `change` of a run that must be made first, since this one starts from its
    weights. `reason` says why nothing can be compared with it.
    """

    table: str
    cited: str
    label: str
    images: int = 0
    recipe: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)
    as_printed: Mapping[str, Any] = field(default_factory=dict)
    starts_from: Mapping[str, Any] | None = None
    every: int | None = None  # every k-th image, where the number of images does not tell
    corruptions: str = ""  # the benchmark that it was certified on
    printed: tuple[Value, ...] = ()
    digits: Mapping[str, int] = field(default_factory=dict)  # printed behind the point, by measure
    best_of: tuple[Row, ...] = ()
    log: str = ""
    log_of_columns: str = ""
    note: str = ""
    reason: str = ""

    @property
    def dataset(self) -> str:
        return self.recipe.partition("/")[0] or (self.best_of[0].dataset if self.best_of else "")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Those of the recipe with the changes of this row."""
        return changed(shipped_settings(self.recipe), self.change)

    @cached_property
    def settings_as_printed(self) -> dict[str, Any]:
        """The same as the paper's text has them, where its authors' code and logs have others."""
        return changed(changed(shipped_settings(self.recipe, True), self.change), self.as_printed)

    @property
    def of_recipe(self) -> bool:
        """Whether it was trained as the recipe is, whatever its method has."""
        return not _TRAINING & self.change.keys()

    @cached_property
    def largest_radius(self) -> float:
        """When all noisy copies agree: beyond it nothing is certified, whatever the network."""
        models = [model for model in self.best_of or (self,) if model.recipe]
        sigmas = [model.settings["sigma"] for model in models]
        return max((saturation_radius(s, N, ALPHA, "gaussian") for s in sigmas), default=math.inf)

    def at(self, measure: str, r: float | None = None, on: str = "") -> Value | None:
        """What is printed; no certified accuracy is left beyond the radius that all noisy copies give."""
        found = next((value for value in self.printed if value.place == (measure, r, on)), None)
        if found or measure != CERTIFIED_ACCURACY or (r or 0.0) <= self.largest_radius:
            return found
        radii = any(value.measure == measure for value in self.printed)
        return Value(self.label, measure, 0.0, r, on) if radii else None

    @property
    def acr(self) -> Value | None:
        return self.at(ACR)

    def text(self, value: Value | None) -> str:
        """As it is printed: shares in percent, a mean with its standard deviation over seeds."""
        if value is None:
            return "-"
        digits, unit = self.digits[value.measure], 100 if value.is_share else 1
        mean = f"{unit * value.value:.{digits}f}"
        return mean if math.isnan(value.sd) else f"{mean} ± {unit * value.sd:.{digits}f}"

    def step(self, value: Value) -> float:
        """One in the last digit that is printed."""
        return float(10.0 ** -self.digits[value.measure]) / (100 if value.is_share else 1)

    @cached_property
    def _made(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """What it is and how it was trained, as the authors did and as the paper's text says."""
        first = {"init_from": "a run"} if self.starts_from else {}
        both = [{**_defaults(), **s, **first} for s in (self.settings, self.settings_as_printed)]
        return [(_subject(each), _training(each)) for each in both]

    def may_be_about(self, config: Mapping[str, Any]) -> bool:
        """Whether network and method have the same names, which is seen at once."""
        method, there = (each.get("method") or {} for each in (config, self.settings))
        return (config.get("model"), method.get("name")) == (
            self.settings.get("model"),
            there.get("name"),
        )

    def is_about(self, config: Mapping[str, Any]) -> bool:
        """Whether a configuration has its data, network, sigma and method; numbers agree within 1 %."""
        subject = _subject(config)
        return _unlike(subject, self._made[bool(config.get("as_printed"))][0]) == []

    def differences(
        self, config: Mapping[str, Any], settings: Mapping[str, Any] | None = None
    ) -> list[str]:
        """How a run was trained or certified otherwise; [] is the same. For images there is `other_images`.

        `settings` are those of the certification, as a manifest calls them: what they do not say is not compared, nor
        are settings of the training that papers do not fix.
        """
        subject, training = self._made[bool(config.get("as_printed"))]
        ours = {name: value for name, value in _training(config).items() if name in training}
        certified = {
            "dataset": self.corruptions or self.dataset,
            **({} if self.corruptions else {"split": "test"}),
            "sigma": self.settings["sigma"],
            **_MEASURED,
        }
        found = dict(settings or {})
        if found.get("simultaneous"):
            found["alpha"] /= found["images"]  # of one certificate
        if "dataset" in found:
            found["dataset"] = str(found["dataset"]).removesuffix("-printed")
        given = {name: found[name] for name in certified if found.get(name) is not None}
        return [
            *_unlike(_subject(config), subject),
            *_unlike(ours, training, 0.0),
            *_unlike(given, certified, 0.0),
        ]

    def other_images(self, settings: Mapping[str, Any]) -> list[str]:
        """How the images of a certification differ: `images` is their number, `idx` are their places in the data set.

        Without `idx` they are every `every`-th from `start` on.
        """
        from smoothcert.data import DATASETS

        count = int(settings["images"])
        if count != self.images:
            return [f"images = {count} here, {self.images} there"]
        size = 10_000 if self.corruptions else DATASETS[self.dataset].test_size
        step = self.every or size // self.images
        theirs = range(0, self.images * step, step)
        start, every = settings.get("start") or 0, settings.get("every") or 1
        ours = settings.get("idx", range(start, start + count * every, every))
        unlike = next(
            (k for k, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None
        )
        if unlike is None:
            return []
        shown = slice(max(0, unlike - 1), max(0, unlike - 1) + 3)
        a, b = (", ".join(str(int(place)) for place in each[shown]) for each in (ours, theirs))
        return [f"images = {a}, ... here, {b}, ... there"]


def method_settings(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The method with every hyperparameter, given or default; `as_printed` is one of the run."""
    method = (config or {}).get("method")
    given = dict(method) if isinstance(method, dict) else {"name": method}
    given.pop("as_printed", None)
    return method_defaults().get(str(given.get("name")), {}) | given


def method_defaults() -> dict[str, dict[str, Any]]:
    """The default hyperparameters of each method.

    They are in the catalogue, since reading them from the code would import PyTorch; a test keeps both equal.
    """
    return dict(contents()["defaults"])


@cache
def contents() -> dict[str, Any]:
    """tables/catalogue.json."""
    place = files(__package__) / "tables" / "catalogue.json"
    return dict(json.loads(place.read_text(encoding="utf-8")))


def _subject(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a row is a row of."""
    more = config.get("self_training")
    weight = more.get("weight", 1.0) if isinstance(more, Mapping) else getattr(more, "weight", 0.0)
    return {
        "dataset": str(config.get("dataset")).removesuffix("-printed"),
        **{name: config.get(name) for name in ("model", "sigma")},
        **{f"method.{name}": value for name, value in method_settings(config).items()},
        "starts from weights": bool(config.get("init_from")),
        "weight of pseudo-labelled images": weight if more else 0.0,
    }


def _training(config: Mapping[str, Any]) -> dict[str, Any]:
    """What papers fix of it, as far as it is given; of the model behind soft labels together."""
    given = {name: config[name] for name in sorted(_TRAINING) if name in config}
    soft = config.get("soft_labels")
    if isinstance(soft, Mapping):
        beside = {**soft, **(soft.get("settings") or {})}
        given["soft_labels"] = {name: value for name, value in beside.items() if name not in _FREE}
    return given


@cache
def _defaults() -> dict[str, Any]:
    from smoothcert.config import TrainConfig  # loads YAML, which reports of logs can do without

    fields = [entry for entry in dataclasses.fields(TrainConfig) if entry.name in _TRAINING]
    values = {
        entry.name: entry.default
        if entry.default_factory is dataclasses.MISSING
        else entry.default_factory()
        for entry in fields
    }
    return {**values, "soft_labels": {}}


def _unlike(ours: Mapping[str, Any], theirs: Mapping[str, Any], within: float = 0.01) -> list[str]:
    def same(a: object, b: object) -> bool:
        if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool):
            return math.isclose(a, b, rel_tol=within)
        return a == b

    names = dict.fromkeys([*ours, *(theirs if within else ())])
    return [
        f"{name} = {_words(ours.get(name))} here, {_words(theirs.get(name))} there"
        for name in names
        if not same(ours.get(name), theirs.get(name))
    ]


def _words(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return " ".join(f"{name}={entry}" for name, entry in value.items()) or "as the run"
