"""How often a network returns each class on noisy copies: batches, noise, memory.

`FusedCounter` (CUDA): one kernel draws the noise of a batch, whose rows may belong to several images, and nothing waits
for the device before all counts are there. `PlainCounter`: one image after the other, with noise from `NoisyCopies`; on
a CPU each thread has its own batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.certification.network import Network
from smoothcert.config import NoiseMode
from smoothcert.config.choices import law_of
from smoothcert.devices.memory import NO_MEMORY, SMALLEST, is_out_of_memory
from smoothcert.errors import ModelError
from smoothcert.kernels.generic.cpu import workers
from smoothcert.kernels.prepare import arithmetic
from smoothcert.noise.exact import Stage, place_of
from smoothcert.noise.streams import NoisyCopies, fused_noise, pixel_levels
from smoothcert.statistics.laws import law_named

_KEPT = 64  # images whose last block of float noise is kept for their next samples: half a MiB each


@dataclass(frozen=True)
class Request:
    """Samples `first` to `last` - 1 of one stage of input `index`, whose picture is number `image` of those given."""

    image: int
    index: int
    stage: Stage
    first: int
    last: int


class Counter(ABC):
    """Counts for some images, all of one shape and on one device."""

    def __init__(
        self,
        images: Sequence[Tensor],
        network: Network,
        *,
        sigma: float,
        mode: NoiseMode,
        seed: int,
    ) -> None:
        self._images, self._network, self._prepared = images, network, network.prepared
        self._sigma, self._mode, self._seed = sigma, mode, seed
        self._device = images[0].device

    @abstractmethod
    def count(self, requests: Sequence[Request], batch_size: int) -> NDArray[np.int64]:
        """Counts [requests, classes]."""


def counter_for(mode: NoiseMode, device: torch.device) -> type[Counter]:
    return FusedCounter if fused_noise(mode, device) else PlainCounter


class Votes:
    """Class counts that stay on the device until they are read."""

    def __init__(self, requests: int, classes: int, device: torch.device) -> None:
        self.counts = torch.zeros(requests, classes, dtype=torch.int64, device=device)
        self.nan = torch.zeros(1, dtype=torch.int64, device=device)
        self._one = torch.ones(1, dtype=torch.int64, device=device)

    def add(self, logits: Tensor, owner: int) -> None:
        self.nan += logits.isnan().any(1).sum()
        # not bincount, which waits for the device
        self.counts[owner].scatter_add_(0, logits.argmax(1), self._one.expand(len(logits)))

    def read(self, samples: int) -> NDArray[np.int64]:
        # the only wait for the device: once for all requests, not once per batch
        if bad := int(self.nan):
            raise ModelError(
                f"the model returned NaN for {bad} of {samples} noisy copies, so its class is arbitrary and "
                "nothing can be certified: the weights are damaged, training diverged, or the precision is too low "
                "(use float32)"
            )
        return self.counts.cpu().numpy()


class PlainCounter(Counter):
    # kept between calls: the next samples of an image begin in the block of float noise where the last ones ended
    _copies: dict[tuple[int, int, Stage], NoisyCopies]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._copies = {}

    def count(self, requests: Sequence[Request], batch_size: int) -> NDArray[np.int64]:
        votes = Votes(len(requests), self._network.classes, self._device)
        self._network.audit.forget()  # what an unfinished count has left
        batches = [
            (owner, self._noisy(request), place, min(place + batch_size, request.last))
            for owner, request in enumerate(requests)
            for place in range(request.first, request.last, batch_size)
        ]

        @torch.inference_mode()  # the mode of one thread only
        def answer(batch: tuple[int, NoisyCopies, int, int]) -> Tensor:
            _, copies, first, last = batch
            x = self._prepared.inputs(forward_size(last - first, batch_size))  # [b, C, H, W]
            x[: last - first] = copies.take(first, last)
            return self._network.answer(x, last - first)

        # precision is a setting of the whole process, so it is set here and not by each thread
        with ExitStack() as stack:
            stack.enter_context(arithmetic(self._prepared.precision))
            threads = self._prepared.concurrent and len(batches) > 1
            each: Any = stack.enter_context(workers()).map if threads else map
            for (owner, *_), logits in zip(batches, each(answer, batches), strict=True):
                votes.add(logits, owner)
            list(each(lambda audit: audit.finish(), [self._network.audit]))
        # on CUDA a block is large, and soon drawn again
        if len(self._copies) > (_KEPT if self._device.type == "cpu" else 0):
            self._copies.clear()
        return votes.read(sum(r.last - r.first for r in requests))

    def _noisy(self, request: Request) -> NoisyCopies:
        key = (request.image, request.index, request.stage)
        if key not in self._copies:
            self._copies[key] = NoisyCopies(
                self._images[request.image],
                self._sigma,
                self._mode,
                seed=self._seed,
                index=request.index,
                stage=request.stage,
            )
        return self._copies[key]


class FusedCounter(Counter):
    def __init__(self, *args: Any, **settings: Any) -> None:
        from smoothcert.noise.fused import FusedNoise

        super().__init__(*args, **settings)
        self._pixels = torch.stack(
            [x if x.dtype == torch.uint8 else pixel_levels(x).to(torch.uint8) for x in self._images]
        )
        self._levels = self._pixels.cpu()  # which the places of their noise are hashed from
        self._noise = FusedNoise(
            law_named(law_of(self._mode)), self._sigma, self._seed, self._device
        )

    def count(self, requests: Sequence[Request], batch_size: int) -> NDArray[np.int64]:
        from smoothcert.certification.votes import Rows, add_votes

        votes = Votes(len(requests), self._network.classes, self._device)
        self._network.audit.forget()  # what an unfinished count has left
        images = self._pixels[torch.tensor([r.image for r in requests], device=self._device)]
        places = [place_of(self._levels[r.image], r.index, r.stage) for r in requests]
        words = self._noise.words([(p, r.last) for p, r in zip(places, requests, strict=True)])
        rows = Rows([(r.first, r.last) for r in requests], self._device)
        for start in range(0, rows.total, batch_size):
            size = min(batch_size, rows.total - start)
            owner, sample = rows.batch(start, size)
            x = self._prepared.inputs(
                size if self._prepared.any_batch else forward_size(size, batch_size)
            )
            self._noise.fill(x[:size], images, words, owner, sample)
            add_votes(_short(self._network.answer(x, size)), owner, votes.counts, votes.nan)
        self._network.audit.finish()
        return votes.read(rows.total)


def _short(logits: Tensor) -> Tensor:
    """Logits of 32 bits with the same votes: cut to that, different ones may be equal."""
    if logits.dtype == torch.float32:
        return logits
    votes = torch.nn.functional.one_hot(logits.argmax(1), logits.shape[1]).float()
    return votes.where(~logits.isnan().any(1, keepdim=True), torch.nan)


def count_within_memory(
    counter: Counter, requests: Sequence[Request], batch_size: int
) -> tuple[NDArray[np.int64], int]:
    """The counts, and the batch size that fitted: halved while memory does not suffice."""
    while True:
        try:
            return counter.count(requests, batch_size), batch_size
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if batch_size <= SMALLEST:
                raise ModelError(NO_MEMORY) from error
            # noise is keyed, so smaller batches draw the same samples
            batch_size //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def forward_size(count: int, batch_size: int) -> int:
    """The size of the batch for `count` inputs: the next power of two, at least 32 and at most a full batch.

    Kernels may round differently for other batch sizes. There are few of them, and none is tiny,
    where CPUs differ most.
    """
    return max(SMALLEST, min(batch_size, 1 << (count - 1).bit_length()))
