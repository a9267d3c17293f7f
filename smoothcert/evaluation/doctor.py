"""examine(): is this network fit to be certified on these images, at which noise level, and what will it cost?"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.config.choices import law_of
from smoothcert.data import Dataset, LazyDataset
from smoothcert.errors import DataError, ModelError
from smoothcert.evaluation.findings import Finding, about_answers, about_noise
from smoothcert.evaluation.input_forms import try_forms
from smoothcert.evaluation.noise_levels import LEVELS, Level, answers_of, best_sigma, measure_level
from smoothcert.evaluation.outlook import Limits, limits_of, samples_expected
from smoothcert.report.measures.intervals import share_intervals
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.procedure import Procedure

IMAGES = 200
SECONDS = 15.0
"""For all noise levels together; the more time, the more noisy copies, up to 100 of each image."""

_MOST_COPIES = 100
_SHOWN = 5  # pictures that cannot be read
_TIMED = 1 / 15  # of these seconds go to measuring the speed
_MEASURED = (
    *("sigma", "copies", "accuracy", "accuracy_interval", "certified", "average_radius"),
    *("acr_of_one_class", "largest_radius"),
)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    config: CertifyConfig
    findings: tuple[Finding, ...]
    labels: NDArray[np.int64] | None = None  # of the images that were looked at
    levels: tuple[Level, ...] = ()
    prepared: tuple[str, ...] = ()
    precision: str = ""
    rate: float = 0.0  # noisy copies per second
    limits: Limits | None = None
    best: float | None = None  # noise level
    planned: int = 0  # images
    seconds: float = 0.0
    radii: tuple[float, ...] = ()
    radii_seconds: float = 0.0

    @property
    def fit(self) -> bool:
        return all(finding.kind != "error" for finding in self.findings)

    @property
    def advice(self) -> str:
        """What to do now: about the worst that was found, or which noise to certify with."""
        for kind, result in (("error", "not ready: "), ("warning", "ready, with a warning: ")):
            for finding in self.findings:
                if finding.kind == kind and finding.advice:
                    return result + finding.advice
        other = (
            f", or with sigma {self.best:g}, where its ACR is most above that of one class"
            if self.best not in (None, self.config.sigma)
            else ""
        )
        return f"ready: certify it with sigma {self.config.sigma:g}{other}"


def examine(
    model: nn.Module,
    data: Dataset | LazyDataset,
    config: CertifyConfig,
    *,
    planned: int,
    images: int = IMAGES,
    device: torch.device,
    seconds: float = SECONDS,
) -> Diagnosis:
    """Look at a network and at some images before hours are spent; `planned` is how many are to be certified."""
    sigma, budget = config.sigma, (config.n, config.alpha, law_named(law_of(config.noise)))
    Procedure.of(config)
    limits = limits_of(sigma, *budget)
    radii = config.radii or ((sigma,) if sigma < limits.largest_radius else ())
    tested = replace(config, radii=radii or None, tolerance=None, simultaneous=False)
    smoothed = SmoothedClassifier(model, tested, classes=data.classes, device=device)
    plan = smoothed.plan(data.shape)
    chosen = np.linspace(0, len(data) - 1, min(images, len(data))).round().astype(int).tolist()
    stored, unreadable = [], []
    for i in chosen:
        try:
            stored.append(torch.from_numpy(np.array(data.image(i))))
        except DataError as error:
            unreadable.append(Finding("error", str(error), "mend the pictures that cannot be read"))
    if unreadable:
        return Diagnosis(config, tuple(unreadable[:_SHOWN]))
    labels = data.labels[chosen] if data.labelled else None
    white = 255 if stored[0].dtype == torch.uint8 else 1
    pixels = (torch.stack(stored).float() / white).to(device)
    inputs, clean = _about_inputs(smoothed.model.eval(), pixels, labels, data)
    try:
        prepared = smoothed.prepare(stored[0])
        rate = _rate(smoothed, stored[0], _TIMED * seconds)
    except ModelError as error:
        refused = Finding("error", str(error), "change the network as the first ERROR says")
        return Diagnosis(config, (refused, inputs), labels)
    findings = [Finding("fine", "the network answers each image alone, and always alike"), inputs]
    if inputs.kind == "error":
        return Diagnosis(config, tuple(findings), labels)
    copies = int(min(_MOST_COPIES, max(2, seconds * rate / len(stored) / len(LEVELS))))
    answers = answers_of(prepared, 64 if device.type == "cpu" else 1024)
    levels = {
        level: measure_level(answers, pixels, level, budget[-1], copies, data.classes)
        for level in sorted({*LEVELS, sigma})
    }
    best = None if labels is None else best_sigma([*levels.values()], labels, *budget)
    findings += about_noise(clean, levels[sigma], labels, best, data, *budget)
    samples = samples_expected(plan.stopping, levels[sigma].shares) if plan.radii else 0.0
    return Diagnosis(
        config,
        tuple(findings),
        labels,
        (*([] if clean is None else [clean]), *levels.values()),
        prepared.steps,
        prepared.precision,
        rate,
        limits,
        best,
        planned,
        planned * (config.n0 + config.n) / rate,
        radii,
        planned * (config.n0 + samples) / rate,
    )


def _rate(smoothed: SmoothedClassifier, image: Tensor, least: float) -> float:
    """Noisy copies per second, votes counted, as certification does it; after a first piece that pays for the start."""
    smoothed.count(image, 100, "prediction", 0)
    size, done, started = smoothed.batch_size or 100, 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < least:
        smoothed.count(image, size, "prediction", done + 1)
        done, size = done + size, 2 * size
    return done / seconds


def _about_inputs(
    model: nn.Module,
    images: Tensor,
    labels: NDArray[np.int64] | None,
    data: Dataset | LazyDataset,
) -> tuple[Finding, Level | None]:
    """What the answers to clean images tell, and these answers."""
    if labels is None:
        text = "the images have no labels, so nothing can be said about accuracy or normalisation"
        return Finding("warning", text), None
    try:
        now, trials = try_forms(model, images, labels)
    except Exception as error:  # a network of the user's may fail in any way
        text = f"the network fails on these images: {type(error).__name__}: {error}"
        return Finding("error", text, "mend the network, or give it other images"), None
    clean, *others = (
        Level(0.0, (trial.answers[:, None] == np.arange(data.classes)).astype(np.int64))
        for trial in (now, *trials)
    )
    several = [
        t for t, level in zip(trials, others, strict=True) if level.one_class(labels) is None
    ]
    return about_answers(clean, now, several, labels, data), clean


def rows_of(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """The noise levels as a table: accuracy of single noisy copies, and what certificates may be expected."""
    config, labels = diagnosis.config, diagnosis.labels
    budget = config.n, config.alpha, law_named(law_of(config.noise))
    rows: list[dict[str, Any]] = []
    for level in diagnosis.levels:
        row = {**dict.fromkeys(_MEASURED), "sigma": level.sigma, "copies": level.copies}
        if labels is not None:
            (within,) = share_intervals([level.accuracy(labels)], len(labels))
            row |= {"accuracy": within.value, "accuracy_interval": [within.low, within.high]}
        if level.sigma:  # without noise nothing is certified
            row["certified"], row["average_radius"] = level.expected(labels, *budget)
            row["largest_radius"] = limits_of(level.sigma, *budget).largest_radius
            if labels is not None:
                row["acr_of_one_class"] = level.one_class_acr(labels, *budget)
        rows.append(row)
    return rows
