"""The network that is sampled from: prepared, checked, and looked at again while it works."""

from __future__ import annotations

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
from smoothcert.kernels.prepare import Prepared, plain_network, prepare, row_distances, synthetic_images
from smoothcert.keys import derive
from smoothcert.models.build import check_shape
from smoothcert.noise.streams import NoisyCopies

_EXAMPLES = 8  # noisy copies of an image that is certified, beside as many synthetic images
_ACCIDENTS, _PLAIN_ACCIDENTS = 1, 3  # rows of one look: hard votes may flip by rounding
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

    Which batches is decided by the system's randomness, which no network can foresee. Nothing waits for the device
    before `read`.
    """

    def __init__(self, prepared: Prepared, plain: Prepared) -> None:
        self._prepared, self._plain = prepared, plain
        self._chance, self._lock = random.SystemRandom(), Lock()
        self._pending: list[tuple[Tensor, Tensor]] = []  # rows that differ: in another batch, by the plain network
        self._sizes: set[int] = set()
        self.rows, self.differing = 0, 0

    def wanted(self, size: int) -> bool:
        """Whether to look at this batch again: the first of each size, then now and then."""
        with self._lock:  # threads may ask at the same time
            first = size not in self._sizes
            self._sizes.add(size)
        return first or self._chance.random() < RATE

    def look(self, x: Tensor, logits: Tensor) -> None:
        """Evaluate some rows of a batch again; `logits` are not in memory that a next forward reuses."""
        with self._lock:  # a model as it is may not like two threads
            self._pending.append(self._differing(x, logits))

    def _differing(self, x: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.tensor(self._chance.sample(range(len(x)), min(SMALLEST, len(x))), device=x.device)
        rows, expected = x[chosen], logits[chosen]
        self.rows += len(rows)
        found, near = [], self._prepared.near()
        for network, far in ((self._prepared, near), (self._plain, _OUTLIER * near)):
            again = network.inputs(SMALLEST)
            again[: len(rows)] = rows
            found.append((~(row_distances(network.forward(again)[: len(rows)], expected) <= far)).sum())  # or NaN
        return found[0], found[1]

    def read(self) -> None:
        """Raise a `ModelError` if more rows differ than by the accident of a score that rounding decides."""
        with self._lock:
            found, self._pending = [(int(a), int(b)) for a, b in self._pending], []
        self.differing += sum(a for a, _ in found)
        if any(a > _ACCIDENTS for a, _ in found):
            raise ModelError(MIXED.format("the other images in its batch, or on chance"))
        if any(b > _PLAIN_ACCIDENTS for _, b in found):
            raise ModelError(_DROPPED)


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

    def answer(self, x: Tensor) -> Tensor:
        """The same, for a batch whose votes count: some rows of it may be looked at again."""
        logits = self.forward(x)
        if self.rechecks.wanted(len(x)):
            logits = logits.clone()  # kernels may reuse the memory
            self.rechecks.look(x, logits)
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
    rows = torch.cat([synthetic[:: len(synthetic) // _EXAMPLES], examples])
    plain = plain_network(model, shape, device)
    try:
        ready = prepare(model, shape, device, precision, kernels, examples)
        for network, near in ((plain, ready.near("float32")), (ready, ready.near())):
            if not check_rows(network, rows, near):
                check_rows(network, examples, near)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise ModelError(NO_MEMORY) from error
        raise
    return Network(ready, classes, Rechecks(ready, plain))
