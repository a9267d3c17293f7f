"""Optimiser steps: plain on the CPU, captured as a CUDA graph on a GPU.

A step of a small network is hundreds of kernels that each run for microseconds, so that launching them one by one
costs far more than running them. On CUDA, the second step of every epoch is captured and the later ones replayed: the
same kernels on the same numbers, launched at once. What may change between epochs (learning rate, warm-up) is captured
anew; labelled and pseudo-labelled batches, whose losses weigh differently, have a graph each.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress
from smoothcert.training.ranks import Ranks


@dataclass
class _Kind:
    """What differs between labelled and pseudo-labelled batches; their losses are logged apart, and without weight."""

    prefix: str
    weight: float
    images: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    static: Batch | None = None
    graph: torch.cuda.CUDAGraph | None = None


class Stepper:
    """Takes the steps of a batch and keeps the sums of its losses on the device, where nothing waits for them."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        method: Method,
        sigma: float,
        ranks: Ranks,
        capture: bool = True,
        pseudo_weight: float = 1.0,
    ) -> None:
        self.model, self.optimizer, self.method, self.sigma, self.ranks = model, optimizer, method, sigma, ranks
        self._kinds = {False: _Kind("", 1.0), True: _Kind("pseudo_labelled_", pseudo_weight)}
        # gradients of several ranks are averaged between backward and step, which stays outside of graphs
        self.capture = capture and ranks.device.type == "cuda" and ranks.world_size == 1
        self._generator = torch.Generator(ranks.device)
        self._progress = Progress(0, 1)

    @property
    def images(self) -> int:
        """Labelled images of this epoch so far."""
        return self._kinds[False].images

    def start_epoch(self, progress: Progress) -> None:
        self._progress = progress
        for kind in self._kinds.values():
            kind.static = kind.graph = None

    def take(self, batch: Batch) -> None:
        """One optimiser step for each of the method's chunks of a batch."""
        # one generator for all batches, since a graph knows its generator by identity, set to the batch's key
        self._generator.manual_seed(batch.generator.initial_seed())
        kind = self._kinds[batch.pseudo_labelled]
        for chunk in replace(batch, generator=self._generator).split(self.method.chunks):
            kind.images += len(chunk.labels)
            if not self.capture:
                self._step(chunk, kind)
            elif kind.static is None:
                self._step(chunk, kind)  # plain: creates momentum and sums, and pays for first uses, outside of a graph
                kind.static = _copy(chunk)
            elif kind.static.images.shape != chunk.images.shape:
                self._step(chunk, kind)  # the last batch of an epoch
            else:
                self._replay(chunk, kind)

    def means(self) -> dict[str, float]:
        """Mean of each loss over the images of its kind in the epoch (of all ranks); empties the sums."""
        found = {}
        for kind in self._kinds.values():
            if kind.images:
                counted = torch.tensor(float(kind.images), dtype=torch.float64, device=self.ranks.device)
                values = self.ranks.sum(torch.stack([*kind.sums.values(), counted]))
                *sums, images = values.tolist()
                for name, value in zip(kind.sums, sums, strict=True):
                    found[kind.prefix + name] = value / images
            kind.sums, kind.images = {}, 0
        return found

    def state(self) -> dict[str, Any]:
        """The sums of an unfinished epoch."""
        kinds = self._kinds.values()
        return {f"{k.prefix}images": k.images for k in kinds} | {f"{k.prefix}sums": k.sums for k in kinds}

    def load_state(self, state: Mapping[str, Any]) -> None:
        for kind in self._kinds.values():
            kind.images = state.get(f"{kind.prefix}images", 0)
            sums = state.get(f"{kind.prefix}sums", {})
            kind.sums = {name: value.to(self.ranks.device) for name, value in sums.items()}

    def _replay(self, chunk: Batch, kind: _Kind) -> None:
        if kind.graph is None and not self._record(kind):
            self._step(chunk, kind)
            return
        assert kind.static is not None
        assert kind.graph is not None
        for mine, theirs in zip(_tensors(kind.static), _tensors(chunk), strict=True):
            mine.copy_(theirs)
        kind.graph.replay()

    def _record(self, kind: _Kind) -> bool:
        """Capture one step; False (and plain steps from now on) if the method cannot be captured."""
        assert kind.static is not None
        graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch 2.12 and later register generators themselves
            graph.register_generator_state(self._generator)
        try:
            with torch.cuda.graph(graph):
                self._step(kind.static, kind)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            warnings.warn(f"this method's step cannot be captured ({reason}): training goes on, slower", stacklevel=2)
            self.capture = False
            self._close_generators()
            return False
        kind.graph = graph
        return True

    def _close_generators(self) -> None:
        """After a failed capture PyTorch 2.11 leaves its generators in capture mode; a capture that ends frees them."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.graph(graph):
            torch.zeros(1, device=self.ranks.device)

    def _step(self, chunk: Batch, kind: _Kind) -> None:
        losses = self.method.loss(self.model, chunk, self.sigma, self._progress)
        if not isinstance(losses, Losses):
            raise ConfigError(
                f"a method's loss returns smoothcert.Losses(total, terms), found {type(losses).__name__}: "
                "return Losses(loss)"
            )
        self.optimizer.zero_grad(set_to_none=True)
        (kind.weight * losses.total).backward()  # type: ignore[no-untyped-call]
        self.ranks.average_gradients(self.model)
        self.optimizer.step()
        for name, value in {"loss": losses.total, **losses.terms}.items():
            if name not in kind.sums:
                kind.sums[name] = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
            kind.sums[name] += value.detach().double() * len(chunk.labels)


def _tensors(batch: Batch) -> list[Tensor]:
    return [batch.images, batch.labels, batch.index, *([] if batch.soft_labels is None else [batch.soft_labels])]


def _copy(batch: Batch) -> Batch:
    soft = None if batch.soft_labels is None else batch.soft_labels.clone()
    return replace(
        batch, images=batch.images.clone(), labels=batch.labels.clone(), index=batch.index.clone(), soft_labels=soft
    )
