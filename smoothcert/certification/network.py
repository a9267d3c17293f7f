"""The network that is sampled from: prepared, checked, and looked at again while it works."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.certification.row_checks import MIXED, check_rows
from smoothcert.config import Kernels, NoiseMode, Precision
from smoothcert.devices.memory import NO_MEMORY, SMALLEST, is_out_of_memory
from smoothcert.errors import ModelError
from smoothcert.kernels.comparing import distances, root_mean_square, synthetic_images
from smoothcert.kernels.prepare import Prepared, plain_network, prepare
from smoothcert.keys import derive
from smoothcert.models.build import check_shape
from smoothcert.noise.streams import NoisyCopies

_EXAMPLES = (
    SMALLEST // 2
)  # noisy copies of an image that is certified, beside as many synthetic images
_LOOKED_AT = (
    SMALLEST // 2
)  # rows of a batch, among as many synthetic images: all of a batch would be the same company
_ACCIDENTS, _PLAIN_ACCIDENTS = 1, 2  # rows of one look: hard votes may flip by rounding
_OUTLIER = 5  # a single row may be farther from the plain network than rows are on average
_DROPPED = (
    "the network that was prepared for sampling gives other answers than the model itself, which may look at values in "
    "a way that tracing drops (a branch, try/except), or change while it runs: use --kernels off, or write the forward "
    "in tensor operations alone"
)

RATE = 0.01
"""Share of the batches that are looked at again, beside the first of each size."""


class Rechecks:
    """Rows of a few batches, chosen at random, evaluated once more: in another batch, and by the plain network.

    Which batches is decided by the system's randomness, which no network can foresee.
    """

    def __init__(self, prepared: Prepared, plain: Prepared, company: Tensor) -> None:
        self._prepared, self._plain, self._company = prepared, plain, company
        self._chance, self._lock = random.SystemRandom(), Lock()
        self._pending: list[
            tuple[Tensor, Tensor]
        ] = []  # rows that differ: in another batch, by the plain network
        self._sizes: set[int] = set()
        self.rows, self.differing = 0, 0

    def chosen(self, size: int, count: int) -> list[int]:
        """Which of the first `count` rows of a batch to look at again: some of the first of each size, then seldom."""
        with self._lock:  # threads may ask at the same time
            first = size not in self._sizes
            self._sizes.add(size)
        if not first and self._chance.random() >= RATE:
            return []
        return self._chance.sample(range(count), min(_LOOKED_AT, count))

    def look(self, rows: Tensor, expected: Tensor) -> None:
        """Evaluate rows again whose logits were `expected`; neither lies in memory that a next forward reuses."""
        with self._lock:  # a model as it is may not like two threads
            self.rows += len(rows)
            self._pending.append(self._differing(rows, expected))

    def _differing(self, rows: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
        near = self._prepared.near()
        again, plain = (
            distances(_evaluate(network, rows, self._company), expected)
            for network in (self._prepared, self._plain)
        )
        # not "> near", which NaN never is
        return (~(again.amax(1) <= near)).sum(), (
            ~(root_mean_square(plain, 1) <= _OUTLIER * near)
        ).sum()

    def read(self) -> None:
        """Raise a `ModelError` if more rows differ than by the accident of a score that rounding decides."""
        with self._lock:
            found, self._pending = [(int(a), int(b)) for a, b in self._pending], []
        self.differing += sum(a for a, _ in found)
        if any(a > _ACCIDENTS for a, _ in found):
            raise ModelError(MIXED.format("the other images in its batch, or on chance"))
        if any(b > _PLAIN_ACCIDENTS for _, b in found):
            raise ModelError(_DROPPED)


def _evaluate(network: Prepared, rows: Tensor, company: Tensor) -> Tensor:
    """Logits of the rows in a batch with images that have nothing to do with them."""
    x = network.inputs(SMALLEST)
    x[: len(rows)], x[len(rows) :] = rows, company[: SMALLEST - len(rows)]
    return network.forward(x)[: len(rows)]


@dataclass(eq=False)
class Network:
    prepared: Prepared
    classes: int
    rechecks: Rechecks = field(repr=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [b, classes] of a batch as `prepared.inputs` lays it out."""
        try:
            logits = self.prepared.forward(x)
        except Exception as error:  # a network of the user's may fail in any way
            if isinstance(error, RuntimeError) and is_out_of_memory(error):
                raise
            kind = str(x.dtype).removeprefix("torch.")
            raise ModelError(
                f"the model could not take a {kind} batch of shape {list(x.shape)}: check the image's size, the "
                f"channel count and the type of the weights. It says: {error}"
            ) from error
        return check_shape(logits, len(x), self.classes)

    def answer(self, x: Tensor, count: int) -> Tensor:
        """The same for the first `count` images, whose votes count: some of them may be looked at again."""
        chosen = self.rechecks.chosen(len(x), count)
        rows = x[chosen] if chosen else None  # a copy, since a forward may change its input
        logits = self.forward(x)[:count]
        if math.isinf(self.prepared.spread) and not bool(logits.isnan().any()):
            raise ModelError(
                f"the model answers a batch of {len(x)} images, but none of {SMALLEST} probe images, so that it cannot "
                "be checked whether it treats each image alone: let it take batches of any size, and values outside "
                "[0, 1], which noisy images have"
            )
        if rows is not None:
            logits = logits.clone()  # kernels may reuse the memory
            self.rechecks.look(rows, logits[chosen])
        return logits


def ready_network(
    model: nn.Module,
    image: Tensor,
    classes: int,
    *,
    sigma: float,
    noise: NoiseMode,
    seed: int,
    precision: Precision,
    kernels: Kernels,
) -> Network:
    """The model, on the device of `image` [C, H, W], made ready for images like it; refused if it mixes rows."""
    shape, device = tuple(image.shape), image.device
    # a seed of their own: what the checks have seen must not decide about the samples that count
    where: dict[str, Any] = {"seed": derive(seed, "examples"), "index": 0, "stage": "selection"}
    examples = NoisyCopies(image, sigma, noise, **where).take(0, _EXAMPLES)
    synthetic = synthetic_images(shape, device)
    rows = torch.cat([synthetic[::2], examples])
    plain = plain_network(model, shape, device)
    try:
        ready = prepare(model, shape, device, precision, kernels, examples)
        for network, near in ((plain, ready.near("float32")), (ready, ready.near())):
            if not check_rows(network, rows, near):
                check_rows(network, torch.cat([examples, examples]), near)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise ModelError(NO_MEMORY) from error
        raise
    return Network(ready, classes, Rechecks(ready, plain, synthetic))
