"""Optimiser steps: plain on the CPU, captured as a CUDA graph on a GPU.

A step of a small network is hundreds of kernels that each run for microseconds, so that launching them one by one
costs far more than running them. On CUDA, the second step is captured and the later ones replayed: the same kernels on
the same numbers, launched at once. If the learning rate changes, or what the loss has asked of its progress, steps are
captured anew; labelled and pseudo-labelled batches have graphs of their own, since their losses have different weights,
and so have the smaller batches at the end of epochs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.devices.memory import is_out_of_memory
from smoothcert.errors import ConfigError
from smoothcert.methods.base import Batch, Losses, Method, Progress
from smoothcert.training.ranks import Ranks


@dataclass
class _Recorded:
    """The step of batches of one size; it is captured when such a batch comes for the second time."""

    batch: Batch  # the memory that the graph reads each batch from
    graph: torch.cuda.CUDAGraph | None = None
    plain: bool = False  # there was no memory for its graph


@dataclass
class _BatchGroup:
    """The labelled or the pseudo-labelled batches: the sums of their losses in an epoch, the graphs of their steps."""

    prefix: str  # of the names of their losses
    weight: float  # of their loss in a step; sums are without it
    images: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    recorded: dict[int, _Recorded] = field(
        default_factory=dict
    )  # by the number of images: the last ones have fewer

    @property
    def captured(self) -> bool:
        return any(step.graph is not None for step in self.recorded.values())


class WatchedProgress(Progress):
    """As long as all that was asked has the same answers, a step that was captured is the step that is wanted."""

    _asked: dict[tuple[Any, ...], object]  # (name, argument, ...): answer

    def __init__(self, epoch: int, epochs: int) -> None:
        super().__init__(epoch, epochs)
        object.__setattr__(self, "_asked", {})

    def later(self, progress: Progress) -> WatchedProgress | None:
        """The same for another epoch; None if it answers otherwise."""
        if any(_answer(progress, *question) != answer for question, answer in self._asked.items()):
            return None
        found = WatchedProgress(progress.epoch, progress.epochs)
        found._asked.update(self._asked)
        return found

    def ramp(self, warmup: int, as_printed: bool = False) -> float:
        return float(self._noted("ramp", warmup, as_printed))

    def reached(self, epoch: int) -> bool:
        return bool(self._noted("reached", epoch))

    def __getattribute__(self, name: str) -> Any:
        # losses also read these as they are, and a subclass of a dataclass cannot make properties of them
        return self._noted(name) if name in ("epoch", "epochs") else super().__getattribute__(name)

    def _noted(self, *question: Any) -> Any:
        fields = super().__getattribute__
        answer = self._asked[question] = _answer(
            Progress(fields("epoch"), fields("epochs")), *question
        )
        return answer


def _answer(progress: Progress, name: str, *arguments: Any) -> Any:
    found = getattr(progress, name)
    return found(*arguments) if arguments else found


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
        self.model, self.optimizer, self.method, self.sigma, self.ranks = (
            model,
            optimizer,
            method,
            sigma,
            ranks,
        )
        self._labelled = _BatchGroup("", 1.0)
        self._pseudo_labelled = _BatchGroup("pseudo_labelled_", pseudo_weight)
        self._groups = (self._labelled, self._pseudo_labelled)
        # several processes add their gradients up between backward and step, which is not captured
        self.capture = capture and ranks.device.type == "cuda" and ranks.world_size == 1
        self._generator = torch.Generator(ranks.device)
        self._progress = WatchedProgress(0, 1)
        self._settings: list[dict[str, Any]] = []  # of the optimiser

    def start_epoch(self, progress: Progress) -> None:
        groups, later = self.optimizer.param_groups, self._progress.later(progress)
        settings = [
            {name: value for name, value in group.items() if name != "params"} for group in groups
        ]
        changed = later is None or settings != self._settings
        for group in self._groups:
            if changed and not group.images:  # else they are those of an epoch that is resumed
                group.sums = {}
            if (
                changed or not group.captured
            ):  # the next step makes the sums, which must not happen in a graph
                group.recorded = {}
        self._progress, self._settings = (
            later or WatchedProgress(progress.epoch, progress.epochs),
            settings,
        )

    def take(self, batch: Batch) -> None:
        """One optimiser step for each of the method's chunks of a batch."""
        # one generator object for all batches, since a graph is bound to it; seeded with the batch's key
        self._generator.manual_seed(batch.generator.initial_seed())
        batch = replace(batch, generator=self._generator)
        group = self._pseudo_labelled if batch.pseudo_labelled else self._labelled
        for chunk in batch.split(self.method.chunks):
            group.images += chunk.total
            if not self.capture:
                self._step(chunk, group)
            elif recorded := group.recorded.get(len(chunk.images)):
                self._replay(chunk, group, recorded)
            else:
                self._step(
                    chunk, group
                )  # not captured: momentum and sums are created outside of a graph
                group.recorded[len(chunk.images)] = _Recorded(_copy(chunk))

    def means(self) -> dict[str, float]:
        """Mean of each loss over the images of its group in the epoch (of all ranks); empties the sums."""
        found = {}
        for group in self._groups:
            if group.images:
                sums = self.ranks.sum(torch.stack(list(group.sums.values()))).tolist()
                for name, value in zip(group.sums, sums, strict=True):
                    found[group.prefix + name] = value / group.images
            group.images = 0
            if not group.captured:
                group.sums = {}
            for value in group.sums.values():  # a graph adds to this memory
                value.zero_()
        return found

    def state(self) -> dict[str, Any]:
        """The sums of an unfinished epoch."""
        images = {f"{group.prefix}images": group.images for group in self._groups}
        sums = {
            group.prefix: {name: value.cpu() for name, value in group.sums.items()}
            for group in self._groups
        }
        return images | {f"{prefix}sums": values for prefix, values in sums.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        for group in self._groups:
            group.images = state.get(f"{group.prefix}images", 0)
            sums = state.get(f"{group.prefix}sums", {})
            group.sums = {name: value.to(self.ranks.device) for name, value in sums.items()}

    def _replay(self, chunk: Batch, group: _BatchGroup, recorded: _Recorded) -> None:
        if recorded.graph is None and (recorded.plain or not self._record(group, recorded)):
            self._step(chunk, group)
            return
        assert recorded.graph is not None
        for mine, theirs in zip(_tensors(recorded.batch), _tensors(chunk), strict=True):
            mine.copy_(theirs)
        recorded.graph.replay()

    def _record(self, group: _BatchGroup, recorded: _Recorded) -> bool:
        """Capture one step; False (and plain steps from now on) if that cannot be done.

        If only memory is short while others are captured, steps of this size alone are plain: graphs hold theirs.
        """
        graph = self._graph()
        try:
            with torch.cuda.graph(graph):
                self._step(recorded.batch, group)
        except RuntimeError as error:
            if is_out_of_memory(error) and any(each.captured for each in self._groups):
                recorded.plain = True
            else:
                reason = str(error).splitlines()[0]
                warnings.warn(
                    f"this method's step cannot be captured ({reason}): it goes on, slower",
                    stacklevel=2,
                )
                self.capture = False
            self._close_generators()
            return False
        recorded.graph = graph
        return True

    def _close_generators(self) -> None:
        """After a failed capture PyTorch 2.11 leaves its generators in capture mode; a successful one ends that."""
        with torch.cuda.graph(self._graph()):
            torch.zeros(1, device=self.ranks.device)

    def _graph(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # PyTorch 2.12 and later register generators themselves
            graph.register_generator_state(self._generator)
        return graph

    def _step(self, chunk: Batch, group: _BatchGroup) -> None:
        losses = self.method.loss(self.model, chunk, self.sigma, self._progress)
        if not isinstance(losses, Losses):
            raise ConfigError(
                f"a method's loss returns smoothcert.Losses(total, terms), found {type(losses).__name__}: "
                "return Losses(loss)"
            )
        self.optimizer.zero_grad(set_to_none=True)
        share = 1.0 if chunk.share is None else chunk.share.weight
        (group.weight * share * losses.total).backward()  # type: ignore[no-untyped-call]
        self.ranks.add_gradients(self.model)
        self.optimizer.step()
        for name, value in {"loss": losses.total, **losses.terms}.items():
            if name not in group.sums:
                group.sums[name] = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
            group.sums[name] += value.detach().double() * (share * chunk.total)


def _tensors(batch: Batch) -> list[Tensor]:
    return [
        batch.images,
        batch.labels,
        batch.index,
        *([] if batch.soft_labels is None else [batch.soft_labels]),
    ]


def _copy(batch: Batch) -> Batch:
    soft = None if batch.soft_labels is None else batch.soft_labels.clone()
    return replace(
        batch,
        images=batch.images.clone(),
        labels=batch.labels.clone(),
        index=batch.index.clone(),
        soft_labels=soft,
    )
