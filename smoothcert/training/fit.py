"""fit(): train a network by any method, from the first start or from where an earlier one was stopped.

    smoothcert train mnist/gaussian-0.50 --out runs/a                                  one process
    torchrun --nproc-per-node 4 -m smoothcert train mnist/gaussian-0.50 --out runs/a   four GPUs

Every random number is keyed by (seed, epoch, step), so a run killed at any moment and started again with the same
command ends, on a CPU, with bit-identical weights and metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.config import PRETRAINED, TrainConfig, dump_config
from smoothcert.data import Dataset, LazyDataset, faults, load_dataset, require_labels
from smoothcert.data.batches import check_augment
from smoothcert.data.decoding import check_workers
from smoothcert.data.folder import AsPublished
from smoothcert.data.lazy import require_alike
from smoothcert.data.pseudo_labels import load_pseudo_labelled
from smoothcert.errors import ConfigError, DataError, ProcessLost
from smoothcert.methods import build_method, resolved
from smoothcert.models.build import factory_of
from smoothcert.models.normalise import normalisation_layer
from smoothcert.runs.folder import RunFolder
from smoothcert.training import soft_labels
from smoothcert.training.loop import Loop, TrainingData, require_same_data
from smoothcert.training.network import begin, frozen_classifier
from smoothcert.training.ranks import Ranks, join_ranks
from smoothcert.training.tracking import check_trackers

CHECKPOINT_SECONDS = 600.0
"""Longest training time that a crash can cost; the end of an epoch is always saved."""


def fit(
    config: TrainConfig,
    out: Path | str,
    *,
    train: Dataset | LazyDataset | None = None,
    test: Dataset | LazyDataset | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    track: Sequence[str] = (),
    quiet: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    workers: int | None = None,
) -> RunFolder:
    """Train to the end in the run folder `out`, going on where an earlier call was stopped.

    Give `train` (and `test`, for accuracies on the way) to use data of your own; otherwise ``config.dataset`` is
    loaded by name. `workers` processes decode pictures; the weights do not depend on how many.

    >>> from smoothcert import Dataset, fit, load_dataset, load_recipe
    >>> data = load_dataset("mnist-mini", "train")
    >>> few = Dataset("few digits", "train", data.images[:64], data.labels[:64], data.classes)
    >>> config = load_recipe("mnist-mini/gaussian-0.50", {"epochs": 1}).config
    >>> run = fit(config, "runs/gaussian", train=few, test=few, quiet=True)
    >>> model, spec = run.load_model()
    >>> spec.sigma
    0.5
    """
    check_workers(workers)
    run = RunFolder(Path(out))
    _check_settings(config, run, track)
    ranks = join_ranks(device)
    try:
        if train is None:
            train, found = load_data(config, data_dir)
            test = found if test is None else test
        data = TrainingData(train, test, workers=workers)
        train_run(config, run, ranks, data, track, quiet or not ranks.is_main, checkpoint_seconds)
        ranks.wait()  # PyTorch's threads may abort a rank that exits; torchrun would then stop the main one as it saves
    except ProcessLost:
        raise  # to close would be to wait for those that are gone
    except BaseException:
        ranks.close()
        raise
    ranks.close()
    return run


def load_data(
    config: TrainConfig, data_dir: Path | None
) -> tuple[Dataset | LazyDataset, Dataset | LazyDataset | None]:
    """The training images of a configuration, and its test images if it asks for accuracies on the way."""
    train = load_dataset(config.dataset, "train", data_dir)
    if not config.evaluate_every:
        return train, None
    known: dict[str, Any] = {"classes": train.classes, "class_names": train.class_names}
    test = load_dataset(config.dataset, "test", data_dir, **known)
    if test.fingerprint() == train.fingerprint():  # a place without splits
        raise ConfigError(
            f"{train.name}: its test images are the training images, so that their accuracy means nothing: "
            "lay them out as train and test, or set evaluate_every to 0"
        )
    return train, test


def _check_settings(config: TrainConfig, run: RunFolder, track: Sequence[str]) -> None:
    """What can be refused before data is loaded, or even downloaded."""
    if build_method(config.method).uses_soft_labels:
        build_method(soft_labels.plan(config, run.path).model.method)
    check_trackers(track)
    factory_of(config.model)
    if config.normalisation != PRETRAINED:
        normalisation_layer(config.normalisation)


def _check_data(config: TrainConfig, data: TrainingData) -> None:
    """What would be found out in the middle of training, or never."""
    require_labels(data.train, "training")
    check_augment(config.augment, data.train)
    if data.test is not None:
        require_labels(data.test, "accuracy on the way")
        require_alike(data.train, data.test)
    for images in (data.train, data.test):  # ImageNet is taken as it is published
        if images is not None and not isinstance(images, AsPublished):
            for fault in faults(images, limit=1):
                raise DataError(fault)


def train_run(
    config: TrainConfig,
    run: RunFolder,
    ranks: Ranks,
    data: TrainingData,
    track: Sequence[str],
    quiet: bool,
    every: float = CHECKPOINT_SECONDS,
) -> None:
    """`fit` on data that is loaded and ranks that are joined."""
    method = build_method(config.method)
    config = resolved(config, method)
    labels = soft_labels.plan(config, run.path) if method.uses_soft_labels else None
    # all checks of the settings come before the folder is claimed for them
    if not run.finished:
        _check_data(config, data)
    pseudo = load_pseudo_labelled(config.self_training, data.train, least=config.batch_size)
    data = replace(data, pseudo=pseudo)
    if labels is not None:
        soft_labels.check(labels, data.train)
    _check_chunks(config, method.chunks, len(data.train))
    beginning = begin(config, method, data.train)
    if not run.finished:  # a finished run needs its sources no more
        beginning.start(config.model)
        method = method.equipped(lambda path: frozen_classifier(path, data.train, ranks.device))
    ranks.require_same("settings", dump_config(config))
    ranks.require_same("data", data.fingerprint if ranks.world_size > 1 else "")
    with run.lock() if ranks.is_main else nullcontext():
        if ranks.is_main:
            run.claim(config)
        ranks.require_same("run folders", str(run.finished))
        if run.finished:
            require_same_data(run, run.spec().data, data.fingerprint)
            return
        votes = None if labels is None else make_soft_labels(labels, ranks, data, quiet, every)
        Loop(config, method, beginning, run, ranks, data, votes).run_epochs(
            track if ranks.is_main else (), every, quiet
        )


def _check_chunks(config: TrainConfig, chunks: int, images: int) -> None:
    largest = min(config.batch_size, images)
    if largest < chunks:
        raise ConfigError(
            f"the method cuts each batch into {chunks} parts, and the largest batch has {largest} of {images} images, "
            "so that no step could be taken: raise batch_size, give more images, or let it cut fewer "
            "(noises of the method, if it is a published one)"
        )


def make_soft_labels(
    wanted: soft_labels.Plan,
    ranks: Ranks,
    data: TrainingData,
    quiet: bool,
    every: float = CHECKPOINT_SECONDS,
) -> np.ndarray:
    """The votes [images, classes] of the plan's model, which is trained first. Finished parts are not made again.

    Finished labels need the model's weights no more: a folder may be given to others without them.
    """
    run = RunFolder(wanted.model_folder)
    with wanted.lock() if ranks.is_main else nullcontext():
        # without the settings of the model nobody could tell what voted: it is trained again then
        if ranks.agree(wanted.finished and run.config_path.is_file() and not run.has_weights):
            return soft_labels.read(wanted, data.train)
        train_run(wanted.model, run, ranks, data, (), quiet, every)
        ranks.wait()  # the main rank saves the model, which the others load
        # the folder may be shared: only code that this run's own settings name is run
        model, _ = run.load_model(trusted=wanted.model.model)
        return soft_labels.vote(wanted, model, data.train, ranks, quiet)
