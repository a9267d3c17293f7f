"""A random share of the samples that are counted is evaluated again, in other company: votes must not move.

Which samples is decided by the system's randomness, which no network can foresee. An answer that moves is held against
copies of its own image (`mixes`). If its companions had a part in it, the network is no function of one image. If it
was the size of the batch or the place in it, that is rounding, and may happen to few.
"""

from __future__ import annotations

import math
import random
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor

from smoothcert.certification.row_checks import MIXED, Sighting, mixes
from smoothcert.devices.memory import SMALLEST
from smoothcert.errors import NoFunctionError
from smoothcert.kernels.comparing import distances, root_mean_square
from smoothcert.kernels.prepare import Prepared

RATE = 1 / 1000
"""Share of the samples that are evaluated again, beside some of the first batch of each size."""

_FIRST = SMALLEST // 2  # rows of the first batch of each size
_OF_BATCH = 8  # on CUDA a batch of the audit has this part of a full batch; on a CPU it is as small as can be
_FEW, _ROUNDED = 2, 0.02  # answers that rounding may move
_PLAIN_FEW, _PLAIN_SHARE = 2, 1 / 8  # answers of a batch that the plain network may give otherwise
_OUTLIER = 5  # a single row may be farther away by rounding than rows are on average
_DROPPED = (
    "the network that was prepared for sampling gives other answers than the model itself, which may look at values in "
    "a way that tracing drops (a branch, try/except), or keep something of the batches that it has seen: use "
    "kernels: off, or write the forward in tensor operations alone"
)


class _Rows(NamedTuple):
    """Rows of batches that were counted: images, what was answered, and each row's size of batch and place in it."""

    images: Tensor
    logits: Tensor
    seen: list[tuple[int, int]]


class Audit:
    """Of one prepared network; `plain` is a copy of the model, which has seen no other batches than those of here."""

    def __init__(self, prepared: Prepared, plain: Prepared, company: Tensor) -> None:
        self._prepared, self._plain = prepared, plain
        self._company = company
        self._chance, self._lock = random.SystemRandom(), Lock()
        self._sizes: set[int] = set()
        self._wait = self._gap()  # samples that are counted before the next that is chosen
        self._waiting: list[_Rows] = []
        self._evaluated: list[tuple[_Rows, Tensor, Tensor, int]] = []
        self.rows, self.differing = 0, 0

    def chosen(self, size: int, count: int) -> list[int]:
        """Which of the first `count` rows of a batch to look at again."""
        with self._lock:  # threads may ask at the same time
            places = set()
            while self._wait < count:
                places.add(self._wait)
                self._wait += 1 + self._gap()
            self._wait -= count
            if size not in self._sizes:
                self._sizes.add(size)
                places.update(self._chance.sample(range(count), min(_FIRST, count)))
        return sorted(places)

    def _gap(self) -> int:
        """How many samples to pass over, so that each is chosen with probability RATE, whatever the others are."""
        return int(math.log1p(-self._chance.random()) / math.log1p(-RATE))

    def take(self, images: Tensor, logits: Tensor, places: list[int], size: int) -> None:
        """Rows of a batch of that size; neither tensor may lie in memory that a next forward reuses."""
        with self._lock:  # a model as it is may not like two threads
            self._waiting.append(_Rows(images, logits, [(size, place) for place in places]))
            if sum(len(rows.seen) for rows in self._waiting) >= self._room(size):
                self._evaluate()

    def forget(self) -> None:
        """What waits belongs to a count that was not finished."""
        self._waiting, self._evaluated = [], []

    @torch.inference_mode()  # the mode of one thread only
    def finish(self) -> None:
        """Raise a `NoFunctionError` if answers moved.

        To be called by a thread like those that counted: with other threads for one operation, the same batch may be
        rounded otherwise.
        """
        if self._waiting:
            self._evaluate()
        pending, self._evaluated = self._evaluated, []
        for found in pending:
            self._judge(*found)

    def _room(self, size: int) -> int:
        """Rows that are looked at in one batch of the audit, a quarter of which is company."""
        on_cpu = self._company.device.type == "cpu"
        return 3 * (SMALLEST if on_cpu else max(SMALLEST, size // _OF_BATCH)) // 4

    def _evaluate(self) -> None:
        """Both networks on all that waits, among company. Nothing waits for the device."""
        waiting, self._waiting = self._waiting, []
        images, logits = map(torch.cat, zip(*((rows[0], rows[1]) for rows in waiting), strict=True))
        seen = [one for rows in waiting for one in rows.seen]
        room = self._room(min(size for size, _ in seen))
        for start in range(0, len(seen), room):
            now = slice(start, start + room)
            rows = _Rows(images[now], logits[now], seen[now])
            size = max(SMALLEST, 1 << (len(rows.seen) * 4 // 3 - 1).bit_length())
            again, plain = (
                self._answers(network, rows.images, size)
                for network in (self._prepared, self._plain)
            )
            self._evaluated.append((rows, again, plain, size))
            self.rows += len(rows.seen)

    def _answers(self, network: Prepared, images: Tensor, size: int) -> Tensor:
        x, others = network.inputs(size), size - len(images)
        company = self._company.repeat(-(-others // len(self._company)), 1, 1, 1)[:others]
        x[: len(images)], x[len(images) :] = images, company
        return network.forward(x)[: len(images)].clone()

    def _judge(self, rows: _Rows, again: Tensor, plain: Tensor, size: int) -> None:
        near, known = self._prepared.near(), ~rows.logits.isnan().any(1)  # NaN is refused elsewhere
        votes = rows.logits.argmax(1)
        # not "> near", which NaN never is
        apart = distances(again, rows.logits).amax(1)
        moved = ~(apart <= near) | (again.argmax(1) != votes)
        for row in (known & moved).nonzero().flatten().tolist():
            seen = Sighting(rows.logits[row], *rows.seen[row]), Sighting(again[row], size, row)
            if mixes(self._prepared, rows.images[row], *seen):
                raise NoFunctionError(MIXED.format("the other images in its batch, or on chance"))
            self.differing += 1
            rounded = float(apart[row]) <= _OUTLIER * near
            if not rounded or self.differing > _FEW + _ROUNDED * self.rows:
                raise NoFunctionError(MIXED.format("its place in the batch, or on the size of it"))
        outliers = ~(root_mean_square(distances(plain, rows.logits), 1) <= _OUTLIER * near)
        lead = plain.gather(1, plain.argmax(1, keepdim=True)) - plain.gather(1, votes[:, None])
        turned = lead[:, 0] > _OUTLIER * near
        if int((known & (outliers | turned)).sum()) > _PLAIN_FEW + _PLAIN_SHARE * len(rows.seen):
            raise NoFunctionError(_DROPPED)
