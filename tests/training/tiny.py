"""Trainings of a second: data, networks, methods and settings that several test files share.

Networks and methods are given to a training by their dotted paths, as a user gives his own.
"""

import dataclasses
import itertools
import os
import resource
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from smoothcert import files
from smoothcert.config import TrainConfig
from smoothcert.data import Dataset
from smoothcert.errors import ConfigError, ProcessLost, StoreError
from smoothcert.interrupts import leave_on_signals
from smoothcert.methods.base import Losses, Method
from smoothcert.runs.folder import RunFolder
from smoothcert.training import soft_labels
from smoothcert.training.fit import fit
from smoothcert.training.steps import Stepper

HERE = "tests.training.tiny"
CONFIG = TrainConfig(
    "tiny", f"{HERE}.TinyNet", 0.25, {"name": "gaussian"}, epochs=3, batch_size=16, lr=0.05
)
SOFT = dataclasses.replace(
    CONFIG,
    sigma=0.5,
    method={"name": "catrs", "noises": 2, "steps": 2},
    epochs=2,
    batch_size=32,
    evaluate_every=0,
    soft_labels={"n": 40, "epochs": 1},
)

SAMPLED = dataclasses.replace(
    CONFIG,
    sigma=0.5,
    method={
        "name": "sun",
        "noises": 2,
        "steps": 2,
        "deferred": 1,
        "threshold": 0.95,
        "reweight_every": 2,
    },
    epochs=4,
    evaluate_every=0,
)


def tiny(split="train", size=150, seed=0):
    """Four classes: which quarter of the image is bright."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, size)
    images = rng.integers(0, 100, (size, 1, 8, 8))
    for image, label in zip(images, labels, strict=True):
        row, column = 4 * (label // 2), 4 * (label % 2)
        image[0, row : row + 4, column : column + 4] += 150
    return Dataset("tiny", split, images.astype(np.uint8), labels, 4)


def train(out, config=CONFIG, data=None, **options):
    options = {"test": tiny("test", 64, 1), "device": "cpu", **options}
    return fit(config, out, train=data or tiny(), quiet=True, **options)


def outcome(run):
    files = ("weights.safetensors", "metrics.jsonl", "model.json", "config.yaml")
    return {name: (run.path / name).read_bytes() for name in files}


def write_pseudo(path, data):
    """A file of pseudo-labelled images."""
    np.savez(path, data=data.images.transpose(0, 2, 3, 1), extrapolated_targets=data.labels)
    return str(path)


def with_pseudo(path, weight=0.5, **changes):
    return dataclasses.replace(CONFIG, self_training={"path": path, "weight": weight}, **changes)


def kinds(batches, epoch):
    """Which batches of an epoch are pseudo-labelled."""
    return [batch.pseudo_labelled for batch in batches.epoch(epoch)]


# ---------------------------------------------------------------- what processes of their own do


def train_reporting_states(report, out, config=CONFIG):
    """Every step ends in a checkpoint, and every checkpoint is reported."""
    real = RunFolder.save_state

    def save_state(self, state):
        real(self, state)
        report()

    RunFolder.save_state = save_state
    train(out, config, checkpoint_seconds=0.0)


def train_reporting_writes(report, out, config, part):
    """Every file that is put in its place is reported; `part` images make a group of votes."""
    soft_labels.PART = part
    real = files.os.replace

    def replace(source, target):
        real(source, target)
        report()

    files.os.replace = replace
    train(out, config, test=None, checkpoint_seconds=0.0)


def train_until_the_disk_is_full(report, out):
    """The third checkpoint may not be written; returns what the refusal says."""
    real = RunFolder.save_state

    def save_state(self, state):
        if state["epoch"] == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        real(self, state)

    RunFolder.save_state = save_state
    try:
        train(out)
    except StoreError as error:
        return str(error)


def train_as_rank(report, out, *configs):
    """One training, or several into numbered folders."""
    for i, config in enumerate(configs):
        train(out if len(configs) == 1 else out / str(i), config)


def train_as_differing_ranks(report, out, differ):
    """Each rank has something of its own; returns what the error says."""
    rank = int(os.environ["RANK"])
    place = out / str(rank) if differ == "run folders" else out
    config = dataclasses.replace(CONFIG, lr=0.05 + 0.01 * rank * (differ == "settings"))
    try:
        train(place, config, tiny(seed=rank * (differ == "data")), test=None)
    except ConfigError as error:
        return str(error)


def train_as_rank_struck(report, out, config, who, number, steps, every=600.0):
    """As `smoothcert train` does; in its so many-th step the rank `who` gets a signal. Returns what an error says."""
    leave_on_signals()
    real, count = Stepper.take, itertools.count(1)

    def take(self, batch):
        real(self, batch)
        if self.ranks.rank == who and next(count) == steps:
            os.kill(os.getpid(), number)

    Stepper.take = take
    try:
        train(out, config, checkpoint_seconds=every)
    except ProcessLost as error:
        return str(error)


def train_as_rank_that_saves_slowly(report, out, config):
    real = RunFolder.save_model

    def save_model(self, model, spec):
        time.sleep(1)
        real(self, model, spec)

    RunFolder.save_model = save_model
    train(out, config, test=None)


# ---------------------------------------------------------------- networks


class TinyNet(nn.Module):
    """Dropout draws from the global generator and BatchNorm has running statistics: both must survive a resume."""

    def __init__(self, classes=4):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 6, 3),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(6 * 36, classes),
        )

    def forward(self, x):
        return self.body(x)


class Plain(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(x.flatten(1))


class Double(nn.Module):
    """In double precision, so that no last bit switches a ReLU or an answer."""

    def __init__(self, classes=4):
        super().__init__()
        layers = nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, classes)
        self.body = nn.Sequential(*layers).double()

    def forward(self, x):
        return self.body(x.double())


class DoubleDenoiser(nn.Module):
    def __init__(self, classes=0):
        super().__init__()
        self.body = nn.Conv2d(1, 1, 3, padding=1).double()

    def forward(self, x):
        return self.body(x.double())


class ThreeClasses(TinyNet):
    def __init__(self, classes=4):
        super().__init__(3)


class Broken(Plain):
    """As a file leaves it that was damaged without a word."""

    def __init__(self, classes=4):
        super().__init__(classes)
        self.fc.bias.data[1] = torch.nan


class Nothing(nn.Module):
    def __init__(self, classes=4):
        super().__init__()

    def forward(self, x):
        return x.flatten(1)[:, :4]


# ---------------------------------------------------------------- methods


@dataclasses.dataclass(frozen=True)
class Clean(Method):
    def loss(self, model, batch, sigma, progress):
        return Losses(F.cross_entropy(model(batch.images), batch.labels))


@dataclasses.dataclass(frozen=True)
class Scaled(Method):
    scales: tuple[float, ...] = (1.0, 2.0)

    def loss(self, model, batch, sigma, progress):
        return Losses(F.cross_entropy(model(batch.images), batch.labels))


@dataclasses.dataclass(frozen=True)
class Exploding(Method):
    def loss(self, model, batch, sigma, progress):
        factor = float("nan") if progress.epoch == 1 else 1.0
        return Losses(factor * F.cross_entropy(model(batch.images), batch.labels))


@dataclasses.dataclass(frozen=True)
class Halves(Method):
    """A method of a user's, by dotted path, that cuts each batch into two steps."""

    weight: float = 1.0

    @property
    def chunks(self):
        return 2

    def loss(self, model, batch, sigma, progress):
        loss = F.cross_entropy(model(batch.images), batch.labels)
        return Losses(self.weight * loss, {"images": torch.tensor(float(len(batch.labels)))})


@dataclasses.dataclass(frozen=True)
class OneAnswer(Method):
    """Teaches the network to answer class 2 whatever it sees."""

    def loss(self, model, batch, sigma, progress):
        return Losses(F.cross_entropy(model(batch.images), torch.full_like(batch.labels, 2)))


@dataclasses.dataclass(frozen=True)
class BareTensor(Method):
    def loss(self, model, batch, sigma, progress):
        return F.cross_entropy(model(batch.images), batch.labels)


@dataclasses.dataclass(frozen=True)
class Reserved(Method):
    def loss(self, model, batch, sigma, progress):
        loss = F.cross_entropy(model(batch.images), batch.labels)
        return Losses(loss, {"pseudo_labelled_loss": loss})


@dataclasses.dataclass(frozen=True)
class LastBad(Method):
    """The loss of pseudo-labelled batches is no number, and no labelled batch comes after to tell."""

    def loss(self, model, batch, sigma, progress):
        loss = F.cross_entropy(model(batch.images), batch.labels)
        return Losses(loss * (float("nan") if batch.pseudo_labelled else 1.0))
