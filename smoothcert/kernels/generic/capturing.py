"""Forwards of a GPU that are launched as one graph, once batches of one size keep coming.

A network of many small layers is launched layer by layer more slowly than the GPU computes it. A graph has the same
kernels on the same memory, so the answers are the same bits.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from smoothcert.devices.memory import SMALLEST

_OFTEN = 3  # batches of a size before it is worth a graph
_log = logging.getLogger("smoothcert")


class Captured:
    """`forward` and `inputs` of a network that computes without side effects. The largest batches get a graph."""

    def __init__(
        self, forward: Callable[[Tensor], Tensor], inputs: Callable[[int], Tensor]
    ) -> None:
        self._forward, self._inputs = forward, inputs
        self._seen: Counter[int] = Counter()
        self._batch: Tensor | None = None  # the memory that the graph reads
        self._logits: Tensor | None = None  # and that it writes
        self._graph: torch.cuda.CUDAGraph | None = None
        self._fails = False

    def inputs(self, count: int) -> Tensor:
        self._seen[count] += 1
        if self._batch is not None and len(self._batch) == count:
            return self._batch.zero_()
        larger = self._batch is None or len(self._batch) < count
        if self._fails or count <= SMALLEST or self._seen[count] < _OFTEN or not larger:
            return self._inputs(count)
        self._graph = self._logits = None
        self._batch = self._inputs(count)
        return self._batch

    def forward(self, x: Tensor) -> Tensor:
        if x is not self._batch or (self._graph is None and not self._capture(x)):
            return self._forward(x)
        assert self._graph is not None
        assert self._logits is not None
        self._graph.replay()
        return self._logits

    def _capture(self, x: Tensor) -> bool:
        """Whether there is a graph now. What cannot be captured, or not in this memory, is launched as before."""
        torch.cuda.empty_cache()  # a graph has memory of its own
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._logits = self._forward(x)
        except RuntimeError as error:
            _log.info("forwards are not captured as a graph: %s", str(error).splitlines()[0])
            self._fails, self._batch, self._logits = True, None, None
            return False
        self._graph = graph
        return True
