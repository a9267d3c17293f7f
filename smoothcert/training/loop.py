"""fit(): the one training loop, for every method.

    smoothcert train mnist/gaussian-0.50 --out runs/a                                  one process
    torchrun --nproc-per-node 4 -m smoothcert train mnist/gaussian-0.50 --out runs/a   four GPUs

Every random number is keyed by (seed, epoch, step), so a run killed at any moment and started again with the same
command ends, on a CPU, with bit-identical weights and metrics.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from smoothcert import progress
from smoothcert.config import TrainConfig
from smoothcert.data import Batches, Dataset, ImageFolder, load_dataset
from smoothcert.data.interleaved import Interleaved
from smoothcert.data.pseudo_labels import fingerprint, load_pseudo_labelled
from smoothcert.errors import COLLAPSED, ConfigError, StoreError, TrainingDiverged
from smoothcert.kernels.trainable import products, trainable
from smoothcert.keys import derive
from smoothcert.methods import build_method, written_out
from smoothcert.methods.base import Method, Progress
from smoothcert.models.build import build_model, check_network
from smoothcert.models.start import start_from
from smoothcert.runs.folder import ModelSpec, RunFolder, load_start
from smoothcert.training import ranks as runtime
from smoothcert.training import soft_labels
from smoothcert.training.steps import Stepper
from smoothcert.training.tracking import check_trackers, open_trackers

CHECKPOINT_SECONDS = 600.0
"""Longest training time that a crash can cost; the end of an epoch is always saved."""


def fit(
    config: TrainConfig,
    out: Path | str,
    *,
    train: Dataset | ImageFolder | None = None,
    test: Dataset | ImageFolder | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    track: Sequence[str] = (),
    quiet: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> RunFolder:
    """Train to the end in the run folder `out`, going on where an earlier call was stopped.

    Give `train` (and `test`, for accuracies on the way) to use data of your own; otherwise ``config.dataset`` is
    loaded by name.
    """
    run, ranks = RunFolder(Path(out)), runtime.start(device)
    try:
        if train is None:
            train = load_dataset(config.dataset, "train", data_dir)
            if test is None and config.evaluate_every:
                test = load_dataset(config.dataset, "test", data_dir)
        _train(config, run, ranks, train, test, track, quiet or not ranks.is_main, checkpoint_seconds)
        ranks.wait()  # PyTorch's threads may abort a rank that exits; torchrun would then stop the main one as it saves
    finally:
        ranks.close()
    return run


def _train(
    config: TrainConfig,
    run: RunFolder,
    ranks: runtime.Runtime,
    train: Dataset | ImageFolder,
    test: Dataset | ImageFolder | None,
    track: Sequence[str],
    quiet: bool,
    every: float,
) -> None:
    method, config = build_method(config.method), written_out(config)
    labels = soft_labels.plan(config, run.path) if method.uses_soft_labels else None
    config, pseudo = load_pseudo_labelled(config, train)
    # whatever can be wrong with the settings is said before the folder becomes theirs
    if labels is not None:
        soft_labels.check(labels, train)
    check_trackers(track)
    network = build_model(config.model, train.classes, config.normalisation, seed=0)
    check_network(network, torch.from_numpy(np.array(train.image(0))), train.classes)
    with run.lock() if ranks.is_main else nullcontext():
        if ranks.is_main:
            run.claim(config)
        ranks.wait()
        if run.finished:
            _same_data(run, run.spec().data, fingerprint(train, pseudo))
            return
        votes = None if labels is None else make_soft_labels(labels, ranks, train, test, quiet, every)
        loop = _Loop(config, method, run, ranks, train, test, votes, pseudo)
        loop.run_epochs(track if ranks.is_main else (), every, quiet)


def make_soft_labels(
    wanted: soft_labels.Plan,
    ranks: runtime.Runtime,
    train: Dataset | ImageFolder,
    test: Dataset | ImageFolder | None,
    quiet: bool,
    every: float = CHECKPOINT_SECONDS,
) -> np.ndarray:
    """The votes [images, classes] of the plan's model, which is trained first; what is there already is kept."""
    run = RunFolder(wanted.model_folder)
    with wanted.lock() if ranks.is_main else nullcontext():
        _train(wanted.model, run, ranks, train, test, (), quiet, every)
        ranks.wait()  # the main rank saves the model, which the others load
        return soft_labels.vote(wanted, run.load_model()[0], train, ranks, quiet)


def _same_data(run: RunFolder, there: str, given: str) -> None:
    if there and there != given:
        raise StoreError(f"{run.path} was trained on other data than given now (another hash): choose another --out")


class _Loop:
    def __init__(
        self,
        config: TrainConfig,
        method: Method,
        run: RunFolder,
        ranks: runtime.Runtime,
        train: Dataset | ImageFolder,
        test: Dataset | ImageFolder | None,
        votes: np.ndarray | None,
        pseudo: Dataset | None,
    ) -> None:
        self.config, self.method, self.run, self.ranks = config, method, run, ranks
        self.train, self.test, self.data = train, test, fingerprint(train, pseudo)
        net = build_model(config.model, train.classes, config.normalisation, seed=derive(config.seed, "init"))
        if config.init_from is not None:
            source, classes = load_start(config.init_from, config.normalisation)
            start_from(net, source, train.classes, classes, config.init_from)
        self.model = net.to(ranks.device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), config.lr, momentum=config.momentum, weight_decay=config.weight_decay
        )
        labelled = Batches(
            train,
            config.batch_size,
            seed=config.seed,
            device=ranks.device,
            augment=config.augment,
            rank=ranks.rank,
            world_size=ranks.world_size,
            soft_labels=votes,
        )
        self.batches = labelled if pseudo is None else Interleaved(labelled, pseudo)
        weight = config.self_training.get("weight", 1.0)
        network = trainable(self.model, ranks.device, config.precision).network
        self.stepper = Stepper(network, self.optimizer, method, config.sigma, ranks, pseudo_weight=weight)
        self.epoch = self.step = self.metrics_length = 0

    def run_epochs(self, track: Sequence[str], every: float, quiet: bool) -> None:
        config, device = self.config, self.ranks.device
        # layers of yours may draw from the global generator (dropout): seeded here, saved with the state, and given
        # back to the caller as it was
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(derive(config.seed, "global", self.ranks.rank))
            self._resume()
            trackers = open_trackers(track, self.run.path, dataclasses.asdict(config))
            steps = len(self.batches)
            total, done = config.epochs * steps, self.epoch * steps + self.step
            bar = progress.Progress(f"train {self.run.path.name}", total, "steps", done=done, quiet=quiet)
            with bar, products(config.precision):
                while self.epoch < config.epochs:
                    metrics = self._train_epoch(bar, every)
                    for tracker in trackers:
                        tracker.log(metrics, int(metrics["epoch"]))
            for tracker in trackers:
                tracker.close()
        if self.ranks.is_main:
            self.run.save_model(self.model, self._spec())

    def _train_epoch(self, bar: progress.Progress, every: float) -> dict[str, float]:
        config, epoch = self.config, self.epoch
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate(epoch)
        self.stepper.start_epoch(Progress(epoch, config.epochs))
        self.model.train()
        started = saved = time.monotonic()
        first = self.step
        for batch in self.batches.epoch(epoch, start=self.step):
            self.stepper.take(batch)
            self.step += 1
            bar.advance(note=f"epoch {epoch + 1} of {config.epochs}")
            # with several ranks only epochs are saved: clocks differ, and all ranks must save the same step
            if self.ranks.world_size == 1 and time.monotonic() - saved > every:
                self._save()
                saved = time.monotonic()
        return self._end_epoch(started, self.step - first)

    def _end_epoch(self, started: float, steps: int) -> dict[str, float]:
        config, epoch = self.config, self.epoch
        self.ranks.share_buffers(self.model)
        metrics: dict[str, float] = {"epoch": epoch, "lr": config.learning_rate(epoch), **self._means()}
        loss = metrics["loss"] + metrics.get("pseudo_labelled_loss", 0.0)  # if one is no number, so is the sum
        if not math.isfinite(loss):
            raise TrainingDiverged(
                f"the loss of {self.run.path} became {loss} in epoch {epoch + 1} of {config.epochs}; the "
                "state before it is kept. Lower the learning rate or the method's weights, or try another seed, "
                "in a new --out"
            )
        if self.test is not None and config.evaluate_every and (epoch + 1) % config.evaluate_every == 0:
            metrics["noisy_test_accuracy"], metrics["most_frequent_answer"] = self._evaluate(self.test)
            if epoch > 0 and metrics["most_frequent_answer"] > COLLAPSED and self.ranks.is_main:
                share = 100 * metrics["most_frequent_answer"]
                print(
                    f"WARNING: {self.run.path} has collapsed: {share:.0f} % of the test images get one and the same "
                    f"answer after epoch {epoch + 1}. Lower the method's weights or the learning rate, or try "
                    "another seed",
                    file=sys.stderr,
                )
        seconds = time.monotonic() - started
        self.epoch, self.step = epoch + 1, 0
        if self.ranks.is_main:
            self.metrics_length = self.run.append("metrics.jsonl", metrics)
            self._save()
            record = {"epoch": epoch, "seconds": round(seconds, 3), "steps": steps, "device": str(self.ranks.device)}
            self.run.append("timing.jsonl", record)
        return metrics

    def _means(self) -> dict[str, float]:
        if not self.stepper.images:
            raise ConfigError(
                f"no optimiser step was taken: the method cuts each batch into {self.method.chunks} parts, and "
                f"{len(self.train)} images in batches of {self.config.batch_size} are too few for that"
            )
        return self.stepper.means()

    @torch.inference_mode()
    def _evaluate(self, test: Dataset | ImageFolder) -> tuple[float, float]:
        """Accuracy of the base classifier on the test set, one noise draw an image, and its top answer's share."""
        self.model.eval()
        seed = derive(self.config.seed, "evaluate")
        batches = Batches(test, 4 * self.config.batch_size, seed=seed, device=self.ranks.device)
        right = torch.zeros((), device=self.ranks.device)
        answers = torch.zeros(test.classes, device=self.ranks.device)
        for batch in batches.epoch(0):
            noise = torch.randn(batch.images.shape, generator=batch.generator, device=self.ranks.device)
            answer = self.model(batch.images + self.config.sigma * noise).argmax(1)
            right += (answer == batch.labels).sum()
            answers.index_add_(0, answer, torch.ones_like(answer, dtype=answers.dtype))
        return float(right) / len(test), float(answers.max()) / len(test)

    def _save(self) -> None:
        state: dict[str, Any] = {
            "epoch": self.epoch,
            "step": self.step,
            **self.stepper.state(),
            "metrics_length": self.metrics_length,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
            "data": self.data,
        }
        if self.ranks.device.type == "cuda":
            state["cuda_rng"] = torch.cuda.get_rng_state(self.ranks.device)
        self.run.save_state(state)

    def _resume(self) -> None:
        state = self.run.load_state()
        if state is not None:
            _same_data(self.run, state["data"], self.data)
            self.epoch, self.step, self.metrics_length = state["epoch"], state["step"], state["metrics_length"]
            self.stepper.load_state(state)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            torch.set_rng_state(state["rng"])
            if "cuda_rng" in state and self.ranks.device.type == "cuda":
                torch.cuda.set_rng_state(state["cuda_rng"], self.ranks.device)
        if self.ranks.is_main:
            self.run.truncate("metrics.jsonl", self.metrics_length)
            self.run.cut_torn_line("timing.jsonl")

    def _spec(self) -> ModelSpec:
        config, data = self.config, self.train
        return ModelSpec(
            config.model,
            data.classes,
            config.normalisation,
            config.sigma,
            config.dataset,
            data.shape,
            data.class_names,
            data=self.data,
        )
