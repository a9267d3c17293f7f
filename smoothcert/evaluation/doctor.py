"""examine(): is this network fit to be certified on these images, at which noise level, and what will it cost?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import Dataset, LazyDataset, faults
from smoothcert.errors import COLLAPSED, DataError, ModelError
from smoothcert.evaluation.input_forms import (
    better_under_noise,
    clearly_better,
    like_guessing,
    other_order,
    try_forms,
)
from smoothcert.evaluation.noise_levels import LEVELS, Level, answers_of, best_sigma, measure_level
from smoothcert.evaluation.outlook import Limits, limits_of, samples_with_radii
from smoothcert.statistics.printed import in_percent

IMAGES = 200
SECONDS = 15.0
"""For all noise levels together; the more time, the more noisy copies, up to 100 of each image."""

_MOST_COPIES = 100
_SHOWN = 5  # pictures that cannot be read
_TIMED = 1 / 15  # of these seconds go to measuring the speed


@dataclass(frozen=True)
class Finding:
    """One sentence; a fault makes certificates worthless or impossible, a warning makes them poor."""

    kind: Literal["fine", "warning", "fault"]
    text: str


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
        return all(finding.kind != "fault" for finding in self.findings)


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
    if unreadable := faults(data, limit=_SHOWN):
        return Diagnosis(config, tuple(Finding("fault", sentence) for sentence in unreadable))
    chosen = np.unique(np.linspace(0, len(data) - 1, min(images, len(data))).round().astype(int))
    try:
        stored = [torch.from_numpy(np.array(data.image(int(i)))) for i in chosen]
    except DataError as error:  # damage that a header does not show
        return Diagnosis(config, (Finding("fault", str(error)),))
    white = 255 if stored[0].dtype == torch.uint8 else 1
    pixels = (torch.stack(stored).float() / white).to(device)
    labels = data.labels[chosen] if data.labelled else None
    smoothed = SmoothedClassifier.of(model, data.classes, config, device=device)
    inputs = list(_about_inputs(smoothed.model.eval(), pixels, labels, data, config.sigma))
    try:
        prepared = smoothed.prepare(stored[0])
        rate = _rate(smoothed, stored[0], _TIMED * seconds)
    except ModelError as error:
        return Diagnosis(config, (Finding("fault", str(error)), *inputs), labels)
    findings = [Finding("fine", "the network answers each image alone, and always alike"), *inputs]
    answers = answers_of(prepared, 64 if device.type == "cpu" else 1024)
    copies = int(min(_MOST_COPIES, max(2, seconds * rate / len(pixels) / len(LEVELS))))
    noise_levels = sorted({*LEVELS, config.sigma})
    levels = tuple(
        measure_level(answers, pixels, sigma, copies, data.classes, seed=0)
        for sigma in noise_levels
    )
    at_sigma = next(level for level in levels if level.sigma == config.sigma)
    if all(finding.kind != "fault" for finding in inputs):
        findings += _about_noise(levels[0], at_sigma, labels)
    radii = config.radii or (config.sigma,)
    with_radii = samples_with_radii(at_sigma.shares, radii, config.sigma, config.n, config.alpha)
    return Diagnosis(
        config,
        tuple(findings),
        labels,
        levels,
        prepared.steps,
        prepared.precision,
        rate,
        limits_of(config.sigma, config.n, config.alpha),
        None if labels is None else best_sigma(levels, labels, config.n, config.alpha),
        planned,
        planned * (config.n0 + config.n) / rate,
        radii,
        planned * (config.n0 + with_radii) / rate,
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
    sigma: float,
) -> Iterator[Finding]:
    classes, names = data.classes, data.class_names
    if labels is None:
        yield Finding(
            "warning",
            "the images have no labels, so nothing can be said about accuracy or normalisation",
        )
        return
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(1)).to(images.device)
    try:
        now, trials = try_forms(model, images, images + sigma * noise, labels)
    except Exception as error:  # a network of the user's may fail in any way
        yield Finding(
            "fault", f"the network fails on these images: {type(error).__name__}: {error}"
        )
        return

    def guesses(right: NDArray[np.bool_]) -> bool:
        return like_guessing(int(right.sum()), len(right), classes)

    right = f"{in_percent(now.clean.mean())} % of the clean images are right"
    if (better := clearly_better(now, trials)) is not None and not guesses(better.clean):
        share = in_percent(better.clean.mean())
        yield Finding(
            "fault",
            f"the normalisation looks wrong: {right}, and {share} % with {better.options}",
        )
    elif renamed := other_order(now, labels):
        shown = ", ".join(
            f"{_named(names, label)} are answered {answer}"
            for label, answer in list(renamed.items())[:4]
        )
        yield Finding(
            "fault",
            f"the network has its classes in another order than the data: images of {shown}, ...",
        )
    elif guesses(now.clean):
        if guesses(np.ones_like(now.clean)):
            yield Finding(
                "warning", f"{right}, of only {len(labels)}: too few to tell it from guessing"
            )
            return
        yield Finding(
            "fault",
            f"{right}, which guessing among {classes} classes would reach: check the weights, the normalisation and "
            "the order of the classes",
        )
    elif len(labels) > 1 and now.clean.mean() <= (common := _commonest(labels)):
        yield Finding(
            "warning",
            f"{right}, but {in_percent(common)} % of them have one and the same label: to answer it always would be as "
            "good",
        )
    elif (better := better_under_noise(now, trials)) is not None:
        shares = " and ".join(f"{in_percent(trial.noisy.mean())} %" for trial in (now, better))
        yield Finding(
            "warning",
            f"{right}, but under noise of sigma {sigma:g} {shares} are right now and with {better.options}: is the "
            "normalisation that of its training?",
        )
    else:
        tried = ", and no usual normalisation does clearly better" if trials else ""
        yield Finding("fine", right + tried)


def _commonest(labels: NDArray[np.int64]) -> float:
    """The share of the most frequent label."""
    return float(np.bincount(labels).max() / len(labels))


def _named(names: Sequence[str], label: int) -> str:
    return f"class {label} ({names[label]})" if names else f"class {label}"


def _about_noise(clean: Level, noisy: Level, labels: NDArray[np.int64] | None) -> Iterator[Finding]:
    common = (
        0.0 if labels is None else _commonest(labels)
    )  # answers may be as alike as the labels are
    if noisy.most_frequent > max(COLLAPSED, common):
        share = in_percent(noisy.most_frequent, digits=0)
        yield Finding(
            "fault" if labels is not None and clean.accuracy(labels) <= common else "warning",
            f"under noise of sigma {noisy.sigma:g}, {share} % of all answers are one and the same class: "
            + (
                "is that so of the images, too?"
                if labels is None
                else "its certificates would say nothing"
            ),
        )
    if labels is None:
        return
    before, after = clean.accuracy(labels), noisy.accuracy(labels)
    if after < 0.5 * before:
        yield Finding(
            "warning",
            f"noise of sigma {noisy.sigma:g} takes the accuracy from {in_percent(before)} to {in_percent(after)} %: "
            "the network was not trained for it. Train it on with noise (`smoothcert train finetune`), put a denoiser "
            "before it (`smoothcert denoised`), or take a smaller sigma",
        )
    elif before:
        yield Finding(
            "fine",
            f"under noise of sigma {noisy.sigma:g}, {in_percent(after)} % of the noisy copies are right",
        )


def rows_of(diagnosis: Diagnosis) -> list[dict[str, float | None]]:
    """The noise levels as a table: accuracy of single noisy copies, and what certificates may be hoped for."""
    n, alpha, labels = diagnosis.config.n, diagnosis.config.alpha, diagnosis.labels
    rows: list[dict[str, float | None]] = []
    for level in diagnosis.levels:
        row: dict[str, float | None] = {
            "sigma": level.sigma,
            "copies": level.copies,
            "accuracy": None if labels is None else level.accuracy(labels),
            "most_frequent_answer": level.most_frequent,
            "certified": None,
            "average_radius": None,
            "largest_radius": None,
        }
        if level.sigma:  # without noise nothing is certified
            row["certified"], row["average_radius"] = level.hoped(labels, n, alpha)
            row["largest_radius"] = limits_of(level.sigma, n, alpha).largest_radius
        rows.append(row)
    return rows
