"""Optimiser steps: plain on the CPU, captured as a CUDA graph on a GPU.

A step of a small network is hundreds of kernels that each run for microseconds, so that launching them one by one
costs far more than running them. On CUDA, the second step of every epoch is captured and the later ones replayed: the
same kernels on the same numbers, launched at once. What may change between epochs (learning rate, warm-up) is captured
anew.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor, nn

from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress
from smoothcert.runtime import Runtime


class Stepper:
    """Takes the steps of a batch and keeps the sums of its losses on the device, where nothing waits for them."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        method: Method,
        sigma: float,
        ranks: Runtime,
        capture: bool = True,
    ) -> None:
        self.model, self.optimizer, self.method, self.sigma, self.ranks = model, optimizer, method, sigma, ranks
        self.sums: dict[str, Tensor] = {}
        self.images = 0
        # gradients of several ranks are averaged between backward and step, which stays outside of graphs
        self.capture = capture and ranks.device.type == "cuda" and ranks.world_size == 1
        self._generator = torch.Generator(ranks.device)
        self._progress = Progress(0, 1)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._static: Batch | None = None

    def start_epoch(self, progress: Progress) -> None:
        self._progress, self._graph, self._static = progress, None, None

    def take(self, batch: Batch) -> None:
        """One optimiser step for each of the method's chunks of a batch."""
        # one generator for all batches, since a graph knows its generator by identity, set to the batch's key
        self._generator.manual_seed(batch.generator.initial_seed())
        for chunk in replace(batch, generator=self._generator).split(self.method.chunks):
            self.images += len(chunk.labels)
            if not self.capture:
                self._step(chunk)
            elif self._static is None:
                self._step(chunk)  # plain: creates momentum and sums, and pays for first uses, outside of the graph
                self._static = _copy(chunk)
            elif self._static.images.shape != chunk.images.shape:
                self._step(chunk)  # the last batch of an epoch
            else:
                self._replay(chunk)

    def means(self) -> dict[str, float]:
        """Mean of each loss over the images of the epoch (of all ranks); empties the sums."""
        counted = torch.tensor(float(self.images), dtype=torch.float64, device=self.ranks.device)
        values = self.ranks.sum(torch.stack([*self.sums.values(), counted]))
        *sums, images = values.tolist()
        found = {name: value / images for name, value in zip(self.sums, sums, strict=True)}
        self.sums, self.images = {}, 0
        return found

    def _replay(self, chunk: Batch) -> None:
        if self._graph is None and not self._record():
            self._step(chunk)
            return
        assert self._static is not None
        assert self._graph is not None
        for mine, theirs in zip(_tensors(self._static), _tensors(chunk), strict=True):
            mine.copy_(theirs)
        self._graph.replay()

    def _record(self) -> bool:
        """Capture one step; False (and plain steps from now on) if the method cannot be captured."""
        assert self._static is not None
        graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch 2.12 and later register generators themselves
            graph.register_generator_state(self._generator)
        try:
            with torch.cuda.graph(graph):
                self._step(self._static)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            warnings.warn(f"this method's step cannot be captured ({reason}): training goes on, slower", stacklevel=2)
            self.capture = False
            self._close_generators()
            return False
        self._graph = graph
        return True

    def _close_generators(self) -> None:
        """After a failed capture PyTorch 2.11 leaves its generators in capture mode; a capture that ends frees them."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.graph(graph):
            torch.zeros(1, device=self.ranks.device)

    def _step(self, chunk: Batch) -> None:
        losses = self.method.loss(self.model, chunk, self.sigma, self._progress)
        if not isinstance(losses, Losses):
            raise ConfigError(
                f"a method's loss returns smoothcert.Losses(total, terms), found {type(losses).__name__}: "
                "return Losses(loss)"
            )
        self.optimizer.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        self.ranks.average_gradients(self.model)
        self.optimizer.step()
        self._add(losses, len(chunk.labels))

    def _add(self, losses: Losses, images: int) -> None:
        for name, value in {"loss": losses.total, **losses.terms}.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
            self.sums[name] += value.detach().double() * images


def _tensors(batch: Batch) -> list[Tensor]:
    return [batch.images, batch.labels, batch.index, *([] if batch.soft_labels is None else [batch.soft_labels])]


def _copy(batch: Batch) -> Batch:
    soft = None if batch.soft_labels is None else batch.soft_labels.clone()
    return replace(
        batch, images=batch.images.clone(), labels=batch.labels.clone(), index=batch.index.clone(), soft_labels=soft
    )
