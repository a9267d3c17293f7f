"""What the papers print for the run at hand, so that a report can show "published" beside "ours".

`published.json` has every row. A run is that of a row if its config.yaml agrees with it in data set, network, sigma,
method and every hyperparameter; one that either does not name has the method's default (in the file, kept equal to
the code by a test). Numbers agree within 1 %: the papers' 255/255 is the code's 255/256. The training schedule is not
compared. Of several rows for the same settings, the one on as many inputs as the run is taken, else the first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from smoothcert.report.measures.analysis import average_certified_radius
from smoothcert.report.measures.confidence import saturation_radius
from smoothcert.report.read.certificates import Certificates

N, ALPHA = 100_000, 0.001  # of every published row


@dataclass(frozen=True)
class Published:
    """One published row: a single run's `acr` and `accuracy` (shares at 0, step, 2 step, ...), or a mean over seeds."""

    dataset: str
    model: str
    method: Mapping[str, Any]
    sigma: float
    inputs: int
    source: str
    step: float
    acr: float | None = None
    mean: float | None = None
    std: float | None = None
    seeds: int = 1
    accuracy: tuple[float, ...] = ()
    note: str = ""

    @property
    def reference(self) -> float:
        """The ACR to compare with: the mean over seeds where there is one."""
        return float(self.acr if self.mean is None else self.mean)  # type: ignore[arg-type]

    def accuracy_at(self, radius: float) -> float | None:
        """The printed certified accuracy at a radius, if it is one of the table's; 0 beyond the saturation radius."""
        column = radius / self.step
        if not self.accuracy or column != int(column):
            return None
        if column < len(self.accuracy):
            return self.accuracy[int(column)]
        return 0.0 if radius > saturation_radius(self.sigma, N, ALPHA) else None

    def printed(self) -> str:
        if self.mean is None:
            return f"{self.acr:.4f}".removesuffix("0")
        return f"{self.mean:.4f} ± {self.std:.4f}"


@dataclass(frozen=True)
class Deviation:
    """Ours minus published ACR; `deviations` is that in standard deviations over seeds, where published."""

    acr: float
    deviations: float | None

    def printed(self) -> str:
        return f"{self.acr:+.3f}" if self.deviations is None else f"{self.deviations:+.1f} s.d."


@cache
def published_rows() -> tuple[Published, ...]:
    """Every row of published.json."""
    content = json.loads((files(__package__) / "published.json").read_text(encoding="utf-8"))
    rows = []
    for row in content["rows"]:
        dataset, defaults = row["dataset"], content["defaults"]
        row["method"] = defaults[row["method"]["name"]] | row["method"]
        row["accuracy"] = tuple(percent / 100 for percent in row.get("accuracy", ()))
        row["source"] = _cited(row["source"], content["sources"])
        rows.append(Published(model=content["models"][dataset], step=content["steps"][dataset], **row))
    return tuple(rows)


@cache
def method_defaults() -> dict[str, dict[str, Any]]:
    """The hyperparameters that a configuration may leave unsaid, by method."""
    content = json.loads((files(__package__) / "published.json").read_text(encoding="utf-8"))
    return dict(content["defaults"])


def method_settings(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The method of a configuration with every hyperparameter: those given, else the method's defaults."""
    method = (config or {}).get("method")
    given = method if isinstance(method, dict) else {"name": method}
    return method_defaults().get(str(given.get("name")), {}) | given


def find_published(c: Certificates) -> Published | None:
    """The published row of a run, if there is one for its settings; logs without a config.yaml have none."""
    config, own = c.config or {}, method_settings(c.config)
    if c.sigma != config.get("sigma"):  # certified with another noise than trained with: no row is about that
        return None
    if config.get("self_training") or config.get("init_from"):  # more data than the rows had
        return None
    fits = [
        row
        for row in published_rows()
        if (row.dataset, row.model, row.sigma) == (config.get("dataset"), config.get("model"), c.sigma)
        and _equal(row.method, own)
    ]
    size = c.expected or c.rows
    return next((row for row in fits if row.inputs == size), fits[0] if fits else None)


def deviation(c: Certificates, row: Published) -> Deviation:
    """ACR - published, and (ACR - mean) / std over the published seeds; radii rounded as published ones are."""
    difference = average_certified_radius(c, rounded=True) - row.reference
    return Deviation(difference, difference / row.std if row.std else None)


def measured_otherwise(c: Certificates, row: Published) -> list[str]:
    """In what a run was not measured as its published row: a difference would then say nothing about the training."""
    measured = (
        ("inputs", c.rows, row.inputs),
        ("n", c.n, N),
        ("alpha", c.alpha, ALPHA),
        ("norm", c.norm, "l2"),
        ("radii", "all" if c.listed is None else "some", "all"),
    )
    return [
        f"{name} = {ours} here, {theirs} there"
        for name, ours, theirs in measured
        if ours is not None and ours != theirs
    ]


def published_notes(results: Sequence[Certificates], labels: Sequence[str]) -> list[str]:
    """Where a run and its published row were not measured alike."""
    otherwise: dict[str, list[str]] = {}  # what differs -> the runs it is true of: one note for all of them
    notes = []
    for c, label in zip(results, labels, strict=True):
        row = find_published(c)
        if row is None:
            continue
        if differs := measured_otherwise(c, row):
            otherwise.setdefault("; ".join(differs), []).append(label)
        if row.note:
            notes.append(f"{label}, published value: {row.note}")
    return [
        f"{', '.join(runs)}: not measured as the published value ({differs}), so no difference is shown"
        for differs, runs in otherwise.items()
    ] + notes


def _equal(row: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    def same(a: object, b: object) -> bool:
        if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool):
            return math.isclose(a, b, rel_tol=0.01)
        return a == b

    return row.keys() == own.keys() and all(same(value, own[name]) for name, value in row.items())


def _cited(source: str, titles: Mapping[str, str]) -> str:
    """`smoothmix, table 5; catrs-logs` -> the titles in place of the short names."""
    parts = [part.partition(", ") for part in source.split("; ")]
    return "; ".join(f"{titles[name]}{comma}{place}" for name, comma, place in parts)
