"""Images beside their certificates: the most and the least robust, the wrong and the abstained ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smoothcert.errors import DataError, SmoothcertError
from smoothcert.png import data_uri
from smoothcert.report.read.certificates import Certificates

KINDS = {
    "most": "Most robust",
    "least": "Least robust",
    "wrong": "Wrong",
    "abstained": "Abstained",
}
BUDGET = 800_000  # characters of images in a page


class Images(Protocol):
    """What a gallery needs of a data set: `image(i)`, uint8 [C, H, W] or floating point in [0, 1]."""

    def image(self, i: int, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Card:
    """One certificate of a gallery; `image` is the place of its picture in `Gallery.images`."""

    run: int
    kind: str
    index: int
    label: int
    predict: int
    radius: float
    counts: tuple[
        tuple[int, int], ...
    ]  # (class, noise samples), the three most frequent first; empty for logs
    samples: int
    image: int


@dataclass(frozen=True)
class Gallery:
    cards: tuple[Card, ...]
    images: tuple[str, ...]  # data URIs; runs share the picture of an input
    names: tuple[str, ...]  # of the classes, if the data set has them
    problem: str = ""  # why pictures are missing

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of cards that there may be: without labels, no answer is known to be wrong."""
        labelled = any(card.label >= 0 for card in self.cards)
        return {kind: text for kind, text in KINDS.items() if kind != "wrong" or labelled}


def pick(c: Certificates, kind: str, most: int) -> list[int]:
    """Places of at most `most` inputs of a kind, spread over the classes, in the order of the kind.

    Most robust: correct, by falling radius. Least: correct, by rising radius. Wrong: by falling radius, since a wrong
    answer with a large radius is the worst. Abstained: by index. Without labels all answers count as correct ones do.
    """
    mask, order = {
        "most": (c.counted, -c.radius),
        "least": (c.counted, c.radius),
        "wrong": (~c.counted & ~c.abstained, -c.radius),
        "abstained": (c.abstained, 0 * c.radius),
    }[kind]
    places = np.flatnonzero(mask)
    places = places[np.argsort(order[places], kind="stable")]
    turn: dict[int, int] = {}  # class -> how many of it came before
    keys = []
    for rank, label in enumerate(c.label[places].tolist()):
        keys.append((turn.get(label, 0), rank))
        turn[label] = turn.get(label, 0) + 1
    chosen = sorted(range(len(places)), key=keys.__getitem__)[:most]
    return [int(places[rank]) for rank in sorted(chosen)]


def build_gallery(
    results: Sequence[Certificates], data: Mapping[str, Images], most: int = 24
) -> Gallery | None:
    """The cards of every run that `data` has images for, fewer of each kind until the pictures fit the budget."""
    runs = [place for place, c in enumerate(results) if c.name in data]
    if not runs:
        return None
    sources = list({id(data[results[run].name]): data[results[run].name] for run in runs}.values())
    pictures: dict[tuple[int, int], str] = {}  # (place of the source, index) -> data URI

    def key(run: int, place: int) -> tuple[int, int]:
        source = next(i for i, images in enumerate(sources) if images is data[results[run].name])
        return source, int(results[run].idx[place])

    try:
        while True:
            chosen = [
                (run, kind, place)
                for run in runs
                for kind in KINDS
                for place in pick(results[run], kind, most)
            ]
            used = sorted({key(run, place) for run, _, place in chosen})
            for source, index in used:
                if (source, index) not in pictures:
                    pictures[source, index] = data_uri(sources[source].image(index))
            if sum(len(pictures[entry]) for entry in used) <= BUDGET or most <= 4:
                break
            most = most * 2 // 3
        for run in runs:
            _check_labels(results[run], data[results[run].name])
    except (SmoothcertError, OSError, IndexError) as error:
        return Gallery((), (), (), f"no pictures: {error}")
    cards = [
        _card(results[run], run, kind, place, used.index(key(run, place)))
        for run, kind, place in chosen
    ]
    names = next(
        (tuple(found) for images in sources if (found := getattr(images, "class_names", ()))), ()
    )
    return Gallery(tuple(cards), tuple(pictures[entry] for entry in used), names)


def _check_labels(c: Certificates, images: Images) -> None:
    labels = getattr(images, "labels", None)
    if labels is not None and not np.array_equal(np.asarray(labels)[c.idx], c.label):
        raise DataError(f"the images given for '{c.name}' have other labels than its certificates")


def _card(c: Certificates, run: int, kind: str, place: int, image: int) -> Card:
    text = "" if c.counts is None else str(c.counts[place])
    counts = [(int(k), int(count)) for k, count in re.findall(r"(\d+):(\d+)", text)]
    counts.sort(key=lambda pair: (-pair[1], pair[0]))
    return Card(
        run, kind, int(c.idx[place]), int(c.label[place]), int(c.predict[place]), float(c.radius[place]),
        tuple(counts[:3]), sum(count for _, count in counts), image,
    )  # fmt: skip
