"""What the answers of a network, without noise and with it, say about its certificates; and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from smoothcert.data import Dataset, LazyDataset
from smoothcert.evaluation.input_forms import Trial, clearly_more, like_guessing, other_order
from smoothcert.evaluation.noise_levels import Level, commonest
from smoothcert.report.measures.intervals import share_intervals
from smoothcert.statistics.laws import Law
from smoothcert.statistics.printed import in_percent

_MANY = 0.1  # of the images: who gains so many by another way to be fed was trained otherwise
_CHECK = "check the weights, the normalisation and the order of the classes"
_LEARN = "train it on with noise (`smoothcert train finetune`) or put a denoiser before it (`smoothcert denoised`)"


@dataclass(frozen=True)
class Finding:
    """One sentence; an error makes certificates worthless or impossible, a warning makes them poor."""

    kind: Literal["fine", "warning", "error"]
    text: str
    advice: str = ""  # what to do about it


def about_answers(
    clean: Level,
    now: Trial,
    trials: Sequence[Trial],
    labels: NDArray[np.int64],
    data: Dataset | LazyDataset,
) -> Finding:
    def guesses(right: NDArray[np.bool_]) -> bool:
        return like_guessing(int(right.sum()), len(right), data.classes)

    text = f"{in_percent(now.right.mean())} % of the clean images are right"
    best = next((trial for trial in trials if clearly_more(trial.right, now.right)), now)
    tied = [t.options for t in trials if t is not best and not clearly_more(best.right, t.right)]
    if best is not now and not guesses(best.right):
        text += f", and {in_percent(best.right.mean())} % with {best.options}"
        text += f", or within chance with {'; '.join(tied)}" if tied else ""
        which = "accuracy cannot tell which of these ways that was" if tied else f"{best.options}?"
        return Finding(
            "error" if best.right.mean() - now.right.mean() > _MANY else "warning",
            f"the normalisation looks wrong: {text}",
            f"feed the network as in its training: {which}",
        )
    if (answer := clean.one_class(labels)) is not None:
        text = (
            f"this network answers one class, {_named(data, answer)}, to nearly all images: {text}"
        )
        return Finding("error", text, _CHECK)
    if renamed := other_order(now, labels):
        shown = ", ".join(
            f"{_named(data, label)} are answered {answer}"
            for label, answer in list(renamed.items())[:4]
        )
        return Finding(
            "error",
            f"the network has its classes in another order than the data: images of {shown}, ...",
            "number the labels as the network does",
        )
    common, every = labels == commonest(labels), np.ones(len(labels), bool)
    if guesses(every) or not clearly_more(every, common):
        text += f", of only {len(labels)}: too few to tell it from guessing"
        return Finding("warning", text, "look at more images, or at more of other classes")
    if guesses(now.right):
        text += f", which guessing among {data.classes} classes would reach"
        return Finding("error", text, _CHECK)
    if not clearly_more(now.right, common):
        text += (
            f", not clearly more than the {in_percent(common.mean())} % of the most frequent label"
        )
        return Finding("warning", text, "look at the accuracy of each class before you certify it")
    if tied:
        text += f", and within chance as many with {'; '.join(tied)}"
    elif trials:
        text += ", clearly more than with any other usual normalisation"
    return Finding("fine", text)


def about_noise(
    clean: Level | None,
    noisy: Level,
    labels: NDArray[np.int64] | None,
    best: float | None,
    data: Dataset | LazyDataset,
    n: int,
    alpha: float,
    law: Law,
) -> Iterator[Finding]:
    where = f"under noise of sigma {noisy.sigma:g}"
    learn = _LEARN
    if best is not None and best < noisy.sigma:
        learn += f", or take sigma {best:g}"
    if (answer := noisy.one_class(labels)) is not None:
        text = (
            f"{where} this network answers one class, {_named(data, answer)}, to nearly all images"
        )
        if labels is None:
            yield Finding("warning", text, "certify it only if that is so of the images, too")
        else:
            yield Finding("error", f"{text}: its certificates would say nothing", learn)
        return
    if labels is None or clean is None:
        return
    before, after = clean.accuracy(labels), noisy.accuracy(labels)
    (within,) = share_intervals([after], len(labels))
    text = (
        f"{where}, {in_percent(after)} % of the noisy copies are right "
        f"({in_percent(within.low)} to {in_percent(within.high)} % with 95 % confidence)"
    )
    acr = noisy.expected(labels, n, alpha, law)[1]
    one = noisy.one_class_acr(labels, n, alpha, law)
    certain = clearly_more(clean.counts.argmax(1) == labels, labels == commonest(labels))
    if certain and not noisy.beats_one_class(labels, n, alpha, law):
        text += (
            f", but not clearly more images would be certified than by a classifier with the one answer "
            f"{_named(data, commonest(labels))}"
        )
        yield Finding("error", text, learn)
    elif after < 0.5 * before:
        text += f", of the clean images {in_percent(before)} %: it was not trained for this noise"
        yield Finding("warning", text, learn)
    elif certain and acr <= one:
        text += f", but an ACR of {acr:.3f} is not above that of one class, {one:.3f}"
        advice = (
            f"take sigma {best:g}"
            if best is not None
            else "judge it by certified accuracy at the radii you need"
        )
        yield Finding("warning", text, advice)
    else:
        yield Finding("fine", text)


def _named(data: Dataset | LazyDataset, label: int) -> str:
    name = data.class_names[label] if data.class_names else ""
    return f"class {label}" + (f" ({name})" if name not in ("", str(label)) else "")
