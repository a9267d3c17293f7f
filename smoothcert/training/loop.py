"""Loop: the epochs of one training run, its metrics, and the state that a restart continues from."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.config import TrainConfig
from smoothcert.data import Batches, Dataset, LazyDataset
from smoothcert.data.interleaved import Interleaved
from smoothcert.errors import COLLAPSED, ConfigError, StoreError, TrainingDiverged
from smoothcert.interrupts import Interrupted, postponed
from smoothcert.kernels.trainable import products, trainable
from smoothcert.keys import derive
from smoothcert.methods.base import Method, Progress, Shares
from smoothcert.progress import ProgressBar
from smoothcert.runs.environment import environment
from smoothcert.runs.folder import ModelSpec, RunFolder
from smoothcert.statistics.printed import in_percent
from smoothcert.training.checkpoint import gathered, restore
from smoothcert.training.denoising_error import denoising_error
from smoothcert.training.network import Beginning
from smoothcert.training.noisy_accuracy import noisy_accuracy
from smoothcert.training.ranks import Ranks
from smoothcert.training.shares import shares_of_copies, shares_of_soft_labels
from smoothcert.training.steps import Stepper
from smoothcert.training.tracking import open_trackers


@dataclass(frozen=True)
class TrainingData:
    """What a run trains on, and the test set that it is measured on now and then."""

    train: Dataset | LazyDataset
    test: Dataset | LazyDataset | None
    pseudo: Dataset | None = None
    workers: int | None = None  # processes that decode pictures; the result does not depend on it

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all that is trained on."""
        pseudo = "" if self.pseudo is None else f"+{self.pseudo.fingerprint()}"
        return self.train.fingerprint() + pseudo


def require_same_data(run: RunFolder, there: str, given: str) -> None:
    if there and there != given:
        raise StoreError(
            f"{run.path} was trained on other data than given now (another hash): choose another folder"
        )


class Loop:
    """One run: its network, optimiser, batches and place in training. `fit` makes it and lets it run."""

    def __init__(
        self,
        config: TrainConfig,
        method: Method,
        beginning: Beginning,
        run: RunFolder,
        ranks: Ranks,
        data: TrainingData,
        votes: np.ndarray | None,
    ) -> None:
        self.config, self.method, self.run, self.ranks, self.data = config, method, run, ranks, data
        self.votes, self.beginning = votes, beginning
        self.model = beginning.model.to(ranks.device)
        self.optimizer = _optimizer(self.model, config, ranks.device)
        self.labelled = Batches(
            data.train,
            config.batch_size,
            seed=config.seed,
            device=ranks.device,
            augment=config.augment,
            rank=ranks.rank,
            world_size=ranks.world_size,
            chunks=method.chunks,
            soft_labels=votes,
            workers=data.workers,
        )
        self.batches = (
            self.labelled
            if data.pseudo is None
            else Interleaved(self.labelled, data.pseudo, config.as_printed)
        )
        weight = 1.0 if config.self_training is None else config.self_training.weight
        self.made = trainable(
            self.model, data.train.shape, ranks.device, config.precision, config.kernels
        )
        self.stepper = Stepper(
            self.made.network, self.optimizer, method, config.sigma, ranks, pseudo_weight=weight
        )
        self.epoch = self.step = self.metrics_length = 0
        self.sampling: Tensor | None = (
            None  # weights of the images in this epoch, if its method chooses them
        )

    def run_epochs(self, track: Sequence[str], every: float, quiet: bool) -> None:
        config, device = self.config, self.ranks.device
        # layers of yours may draw from the global generator (dropout): it is seeded here, saved with the state, and
        # restored for the caller
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(derive(config.seed, "global", self.ranks.rank))
            self._resume()
            trackers = open_trackers(track, self.run.path, dataclasses.asdict(config))
            steps = len(self.batches)
            total, done = config.epochs * steps, self.epoch * steps + self.step
            bar = ProgressBar(f"train {self.run.path.name}", total, "steps", done=done, quiet=quiet)
            with (
                postponed() as came,
                ExitStack() as opened,
                bar,
                products(device, config.precision, config.kernels),
            ):

                def check(due: bool = False) -> bool:
                    number = self.ranks.agree(
                        came() or int(due)
                    )  # no signal that is heeded has the number 1
                    if number > 1:
                        raise Interrupted(number)
                    return bool(number)

                for tracker in trackers:
                    opened.callback(tracker.close)
                try:
                    while self.epoch < config.epochs:
                        metrics = self._train_epoch(bar, every, check)
                        for tracker in trackers:
                            tracker.log(metrics, int(metrics["epoch"]))
                except Interrupted:
                    self._save()
                    self.ranks.wait()  # torchrun stops all processes when one has ended
                    raise
        if self.ranks.is_main:
            self.run.save_model(self.model, self._spec())

    def _train_epoch(
        self, bar: ProgressBar, every: float, check: Callable[..., bool]
    ) -> dict[str, float]:
        """`check` raises Interrupted if a signal came to any process, and tells whether a checkpoint is due.

        All processes call it equally often, and where the state that is saved then can be continued.
        """
        config, epoch = self.config, self.epoch
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate(epoch)
        started = saved = time.monotonic()
        progress = Progress(epoch, config.epochs)
        if (
            self.step == 0
        ):  # later they are of the state, since the network is no longer what they were chosen by
            self.sampling = self.method.sampling(
                progress, self.sampling, self._shares(epoch, check)
            )
        self.stepper.start_epoch(progress)
        self.model.train()
        first = self.step
        for batch in self.batches.epoch(epoch, start=self.step, weights=self.sampling):
            self.stepper.take(batch)
            self.step += 1
            bar.advance(note=f"epoch {epoch + 1} of {config.epochs}")
            if check(
                self.ranks.is_main and time.monotonic() - saved > every
            ):  # clocks differ: that of the main one
                self._save()
                saved = time.monotonic()
        return self._end_epoch(started, self.step - first, check)

    def _shares(self, epoch: int, check: Callable[[], object]) -> Shares:
        def of_copies(copies: int) -> Tensor:
            batches = self.labelled.keyed(derive(self.config.seed, "shares", copies)).epoch(epoch)
            where = (self.made.network, batches, len(self.data.train), self.config.sigma, copies)
            return shares_of_copies(*where, self.ranks, check)

        def of_soft_labels() -> Tensor:
            if self.votes is None:
                raise ConfigError(
                    "shares of soft labels are for methods whose uses_soft_labels is true"
                )
            return shares_of_soft_labels(self.votes, self.data.train.labels)

        return Shares(of_copies, of_soft_labels)

    def _end_epoch(
        self, started: float, steps: int, check: Callable[[], object]
    ) -> dict[str, float]:
        config, epoch = self.config, self.epoch
        self.ranks.share_buffers(self.model)
        measured: dict[str, float] = {}
        if (
            self.data.test is not None
            and config.evaluate_every
            and (epoch + 1) % config.evaluate_every == 0
        ):
            # before the sums of the epoch are emptied: until then it can be interrupted
            measured = self._evaluate(self.data.test, check)
        metrics = {
            "epoch": epoch,
            "lr": config.learning_rate(epoch),
            **self.stepper.means(),
            **measured,
        }
        if self.sampling is not None:
            metrics["kept_images"] = int((self.sampling > 0).sum())
        # finite only if both are; a short epoch as printed may lack one
        loss = metrics.get("loss", 0.0) + metrics.get("pseudo_labelled_loss", 0.0)
        if not math.isfinite(loss):
            raise TrainingDiverged(
                f"the loss of {self.run.path} became {loss} in epoch {epoch + 1} of {config.epochs}; the "
                "state before it is kept. Lower the learning rate or the method's weights, or try another seed, "
                "in a new folder"
            )
        if (
            epoch > 0
            and metrics.get("most_frequent_answer", 0.0) > COLLAPSED
            and self.ranks.is_main
        ):
            share = in_percent(metrics["most_frequent_answer"], digits=0)
            print(
                f"WARNING: {self.run.path} has collapsed: {share} % of the test images get one and the same "
                f"answer after epoch {epoch + 1}. Lower the method's weights or the learning rate, or try another seed",
                file=sys.stderr,
            )
        seconds = time.monotonic() - started
        self.epoch, self.step = epoch + 1, 0
        if self.ranks.is_main:
            self.metrics_length = self.run.append("metrics.jsonl", metrics)
        self._save()
        if self.ranks.is_main:
            record = {
                "epoch": epoch,
                "seconds": round(seconds, 3),
                "steps": steps,
                "device": str(self.ranks.device),
            }
            self.run.append("timing.jsonl", record)
        return metrics

    def _evaluate(
        self, test: Dataset | LazyDataset, check: Callable[[], object]
    ) -> dict[str, float]:
        seed = derive(self.config.seed, "evaluate")
        device, workers = self.ranks.device, self.data.workers
        batches = Batches(
            test, 4 * self.config.batch_size, seed=seed, device=device, workers=workers
        ).epoch(0)
        if self.method.denoises:
            error, psnr = denoising_error(self.model, batches, self.config.sigma, check)
            return {"test_mse": error, "test_psnr": psnr}
        accuracy, most_frequent = noisy_accuracy(
            self.model, batches, self.config.sigma, test.classes, check
        )
        return {"noisy_test_accuracy": accuracy, "most_frequent_answer": most_frequent}

    def _save(self) -> None:
        """All processes call this, since each has a part of the state; the main one writes it."""
        own = gathered(self.stepper, self.model, self.ranks)
        if not self.ranks.is_main:
            return
        state: dict[str, Any] = {
            "epoch": self.epoch,
            "step": self.step,
            **own,
            "metrics_length": self.metrics_length,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "data": self.data.fingerprint,
            "sampling": self.sampling,
        }
        self.run.save_state(state)

    def _resume(self) -> None:
        state = self.run.load_state()
        if state is not None:
            require_same_data(self.run, state["data"], self.data.fingerprint)
            self.epoch, self.step, self.metrics_length = (
                state["epoch"],
                state["step"],
                state["metrics_length"],
            )
            self.sampling = state.get("sampling")  # older versions had none
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            anew = derive(self.config.seed, "global", self.ranks.rank, self.epoch, self.step)
            restore(state, self.stepper, self.model, self.ranks, anew)
        self.ranks.require_same("checkpoints", f"{self.epoch} {self.step}")
        if self.ranks.is_main:
            self.run.truncate("metrics.jsonl", self.metrics_length)
            for name in ("timing.jsonl", "environment.jsonl"):
                self.run.cut_torn_line(name)
            self.run.append("environment.jsonl", self._environment())

    def _environment(self) -> dict[str, Any]:
        """On what, and with which kernels, the weights are made from this step on."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            **environment(self.ranks.device),
            "processes": self.ranks.world_size,
            "precision": self.config.precision if self.ranks.device.type == "cuda" else "float32",
            "kernels": self.made.kernels,
            "skipped": list(self.made.reasons),
        }

    def _spec(self) -> ModelSpec:
        config, data, made = self.config, self.data.train, self.beginning
        return ModelSpec(
            config.model,
            made.classes,
            made.normalisation,
            config.sigma,
            config.dataset,
            data.shape,
            data.class_names if made.classes else (),
            data=self.data.fingerprint,
            options=dict(made.options),
        )


def _optimizer(
    model: nn.Module, config: TrainConfig, device: torch.device
) -> torch.optim.Optimizer:
    if config.optimizer == "adam":
        return torch.optim.Adam(
            model.parameters(),
            config.lr,
            betas=(config.momentum, 0.999),
            weight_decay=config.weight_decay,
            capturable=device.type
            == "cuda",  # its count of steps is then on the device, where a graph advances it
        )
    return torch.optim.SGD(
        model.parameters(),
        config.lr,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        nesterov=config.nesterov,
    )
