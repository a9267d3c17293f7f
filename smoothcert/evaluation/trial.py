"""What `smoothcert try` computes: ten digits, each certified, and attacked inside and outside of its radius.

An attack that fails proves nothing: what holds inside a radius was proved before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from smoothcert.attacks.rounding import round_inside
from smoothcert.certification.certify import certify_dataset
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import AttackConfig, CertifyConfig
from smoothcert.data import load_dataset
from smoothcert.evaluation.attack import adversarial_image
from smoothcert.keys import derive
from smoothcert.noise.streams import NoisyCopies, unit_range
from smoothcert.png import data_uri
from smoothcert.report import Report, read_results
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.loading import MINI, mini_run
from smoothcert.runs.selection import Selection
from smoothcert.statistics.bounds import check_samples
from smoothcert.statistics.printed import at_least
from smoothcert.statistics.procedure import ABSTAIN, Certificate

Pixels = NDArray[np.uint8]

DIGITS = 10
_SEED = 0  # of the noise; the network was trained before this noise was drawn for it
_INSIDE = 0.98  # of the radius
_OUTSIDE = (1.2, 1.5, 2.0, 2.5, 3.0, 4.0)  # of the radius, until the answer is another


_LEGEND = (
    "In each row: a digit; one of its noisy copies, with the votes of all of them and the radius that "
    "these prove; the digit after the worst change that an attack has found inside of the radius, where "
    "the answer stays, as was proved; and after one outside of it, where nothing is promised."
)


@dataclass(frozen=True)
class Attacked:
    """A digit that an attack has changed, and what is answered to it."""

    image: Pixels
    distance: float
    predict: int
    votes: int  # for the class that was certified


@dataclass(frozen=True)
class Digit:
    """A digit with one noisy copy and its certificate, and what attacks have found inside its radius and outside."""

    label: int
    image: Pixels
    noisy: Pixels
    certificate: Certificate
    inside: Attacked | None = None  # none where nothing is certified
    outside: Attacked | None = None  # none where no attack has changed the answer

    @property
    def contradicted(self) -> bool:
        """Whether the answer is another one inside of the radius, as it may be with probability alpha."""
        answers = (ABSTAIN, self.certificate.predict)
        return self.inside is not None and self.inside.predict not in answers


class Trial:
    """The small network in a run folder below `out`, the digits, and how each is certified."""

    def __init__(self, out: Path, n: int) -> None:
        check_samples(CertifyConfig.n0, n, CertifyConfig.alpha)
        shipped, self.run, self.page = mini_run(), RunFolder(out / MINI), out / "report.html"
        model, spec = shipped.load_model()
        self.run.claim(shipped.config())
        if not self.run.finished:
            self.run.save_model(model, spec)
        self.data = load_dataset("mnist-mini", "test")
        self.config = CertifyConfig(spec.sigma, n=n, seed=_SEED)
        self.smoothed = SmoothedClassifier(model, self.config)

    def certified(self) -> Iterator[Digit]:
        """The digits, one by one as they are certified."""
        sigma, noise = self.config.sigma, self.config.noise
        for index in range(DIGITS):
            image = torch.from_numpy(np.array(self.data.image(index)))
            copies = NoisyCopies(image, sigma, noise, seed=_SEED, index=index, stage="selection")
            noisy = (255 * copies.take(0, 1)[0].clamp(0, 1)).round().to(torch.uint8).numpy()
            label = int(self.data.labels[index])
            yield Digit(label, image.numpy(), noisy, self.smoothed.certify(image, index))

    def attacked(self, digits: Sequence[Digit]) -> list[Digit]:
        """The same after attacks: one inside each radius, and ever larger ones until the answer is another."""
        # a copy, since attacks freeze a network, and the one that is certified must stay as it is
        model = deepcopy(self.smoothed.model).eval()
        return [self._attacked(model, digit, index) for index, digit in enumerate(digits)]

    def _attacked(self, model: nn.Module, digit: Digit, index: int) -> Digit:
        radius, label = digit.certificate.radius, digit.certificate.predict
        image, key = torch.from_numpy(digit.image), derive(_SEED, "trial", index)

        def attack(size: float) -> Attacked:
            config = AttackConfig(self.config.sigma, (size,), noises=16, steps=10)
            found = adversarial_image(model, unit_range(image), label, config, size, key).detach()
            changed = round_inside(found, image, size)
            predict, counts = self.smoothed.predict_counted(changed, index)
            distance = float((changed.double() - image.double()).norm()) / 255
            return Attacked(changed.numpy(), distance, predict, int(counts[label]))

        if digit.certificate.abstained or radius == 0:
            return digit
        larger = (attack(factor * radius) for factor in _OUTSIDE)
        outside = next((one for one in larger if one.predict not in (ABSTAIN, label)), None)
        return replace(digit, inside=attack(_INSIDE * radius), outside=outside)

    def write_page(self, digits: Sequence[Digit]) -> None:
        """The same certificates as rows of the run, which can be verified, and the report of them."""
        store = self.run.path / "certify" / f"try-{self.config.n}"
        chosen = Selection(max=DIGITS)
        certify_dataset(
            self.smoothed.model, self.data, store, self.config, selection=chosen, quiet=True
        )
        results = read_results(store)
        images = {each.name: self.data for each in results}
        opening = ("Ten digits", _table(digits))
        Report(results, images=images).write(self.page, "smoothcert try", opening)


def _table(digits: Sequence[Digit]) -> str:
    rows = [f'<p class="how">{_LEGEND}</p>']
    for digit in digits:
        c = digit.certificate
        votes = f"{c.counts[c.selected]:,} of {c.counts.sum():,} votes for {c.selected}"
        radius = "abstains" if c.abstained else f"radius {at_least(c.radius, 2)}"
        figures = (
            _figure(digit.image, f"label {digit.label}"),
            _figure(digit.noisy, f"one noisy copy<br>{votes}<br><strong>{radius}</strong>"),
            _change(digit.inside, "inside", "nothing is certified"),
            _change(digit.outside, "outside", "none was found" if digit.inside else ""),
        )
        rows.append(f'<div class="trial">{"".join(figures)}</div>')
    return "".join(rows)


def _change(one: Attacked | None, where: str, without: str) -> str:
    if one is None:
        return f"<figure><figcaption>{without}</figcaption></figure>"
    answer = "no answer" if one.predict == ABSTAIN else f"answer {one.predict}"
    return _figure(
        one.image, f"{where}: changed by {one.distance:.2f}<br><strong>{answer}</strong>"
    )


def _figure(image: Pixels, text: str) -> str:
    picture = f'<img src="{data_uri(image)}" alt="" width="112" height="112">'
    return f"<figure>{picture}<figcaption>{text}</figcaption></figure>"
