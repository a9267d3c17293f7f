"""The settings of a training run: everything that decides the weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from smoothcert.config.choices import (
    Kernels,
    OptimizerName,
    TrainingPrecision,
    check_seed,
    check_sigma,
)
from smoothcert.config.read import check_types, checked, read_mapping
from smoothcert.errors import ConfigError, unknown_name

PRETRAINED = "pretrained"
"""As `init_from` the weights, as `normalisation` the first layer that a network comes with."""


@dataclass(frozen=True)
class SoftLabels:
    """How the soft labels of CAT-RS are made: `n` votes per image of a Gaussian model with `settings` of its own."""

    n: int = 10_000
    folder: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: object = self.n
        if isinstance(given, float) and given.is_integer():  # 1e4 on the command line
            object.__setattr__(self, "n", int(given))
        if not isinstance(self.n, int) or not 1 <= self.n < 2**31:
            raise ConfigError(
                f"soft_labels.n, the votes per image, must be a whole number from 1 on, found {self.n!r}"
            )
        if self.folder is not None and not isinstance(self.folder, str):
            raise ConfigError(f"soft_labels.folder must be a path, found {self.folder!r}")
        known = ("n", "folder", *(entry.name for entry in dataclasses.fields(TrainConfig)))
        for name in self.settings:
            if name not in known:
                raise unknown_name("setting of soft_labels", name, known)

    @classmethod
    def read(cls, given: object) -> Self:
        """From ``{n, folder, settings}``, where a setting of the model may also stand beside n and folder."""
        if isinstance(given, cls):
            return given
        values = _mapping(given, "soft_labels")
        known = {name: values.pop(name) for name in ("n", "folder") if name in values}
        return cls(
            **known,
            settings={**_mapping(values.pop("settings", None), "soft_labels.settings"), **values},
        )


@dataclass(frozen=True)
class SelfTraining:
    """The file of pseudo-labelled images, and the weight of their loss (the paper's eta)."""

    path: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_types(self)
        if self.weight < 0:
            raise ConfigError(
                f"self_training.weight must be a number from 0 on, found {self.weight!r}"
            )

    @classmethod
    def read(cls, given: object) -> Self | None:
        if isinstance(given, cls):
            return given
        values = _mapping(given, "self_training")
        return checked(cls, values, "setting of self_training") if values else None


def _mapping(given: object, name: str) -> dict[str, Any]:
    """A copy of a mapping of settings; None is an empty one."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            f"{name} must be a mapping of settings, such as {{key: value}}, found {given!r}"
        )
    return dict(given or {})


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the weights. Written to config.yaml; a run folder belongs to exactly one.

    >>> from smoothcert import TrainConfig
    >>> method = {"name": "consistency", "lam": 5.0}
    >>> TrainConfig("mnist-mini", "lenet", sigma=0.5, method=method, epochs=8, lr_step=6).lr
    0.01
    """

    dataset: str
    """name of the data set (`smoothcert list data`)"""
    model: str
    """architecture: lenet, resnet20, resnet110, resnet50, hf:NAME, timm:NAME, torchvision:NAME,
    a dotted path or FILE.py:NAME"""
    sigma: float
    """standard deviation of the Gaussian noise, in units of the [0,1] image; 0: no noise"""
    method: dict[str, Any]
    """training method and its hyperparameters, e.g. --method.name consistency --method.lam 5"""
    epochs: int = 90
    """passes over the training set"""
    batch_size: int = 256
    """images per loaded batch, over all processes"""
    optimizer: OptimizerName = "sgd"
    """how the gradients change the weights"""
    lr: float = 0.01
    """initial learning rate"""
    momentum: float = 0.9
    """momentum of SGD, or the first beta of Adam"""
    nesterov: bool = False
    """Nesterov's form of SGD's momentum"""
    weight_decay: float = 1e-4
    """weight decay, on every parameter"""
    lr_step: int = 30
    """epochs between two drops of the learning rate"""
    lr_factor: float = 0.1
    """factor of each drop"""
    lr_late: bool = False
    """drop one epoch late, as the published code of Consistency, SmoothMix and CAT-RS does"""
    lr_drops: list[int] = field(default_factory=list)
    """epochs, counted from 0, at whose start the rate drops, instead of every lr_step"""
    model_options: dict[str, Any] = field(default_factory=dict)
    """of the architecture, e.g. --model-options.depth 8"""
    normalisation: str = "none"
    """first layer of the network: none, cifar10, imagenet, ...; pretrained: that of init_from"""
    augment: Literal["none", "crop-flip", "imagenet"] = "none"
    """augmentation of training images"""
    precision: TrainingPrecision = "tf32"
    """of products on CUDA: tf32 as PyTorch's convolutions, full float32, or layers in bfloat16"""
    seed: int = 0
    """seed of initial weights, order, augmentation and noise"""
    evaluate_every: int = 1
    """epochs between two measurements of noisy test accuracy; 0: never"""
    init_from: str | None = None
    """run folder or file of weights to start from, or pretrained: as the network comes; its
    last layer is new where the classes differ"""
    soft_labels: SoftLabels = field(default_factory=SoftLabels)
    """for methods with soft labels: n (votes per image), folder (to share them), and settings
    of their model"""
    self_training: SelfTraining | None = None
    """self-training on pseudo-labelled images: path (a pickle or .npz file) and weight of their
    loss"""
    kernels: Kernels = "auto"
    """auto: kernels of our own where the network has some; off: PyTorch's alone"""
    as_printed: bool = False
    """as the paper's text says where its authors' code does otherwise (docs/methods.md)"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "soft_labels", SoftLabels.read(self.soft_labels))
        object.__setattr__(self, "self_training", SelfTraining.read(self.self_training))
        check_types(self)
        for name in ("lr", "lr_factor"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, found {getattr(self, name)!r}")
        for name in ("epochs", "batch_size", "lr_step"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)!r}")
        for name in ("sigma", "momentum", "weight_decay", "evaluate_every"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative, found {getattr(self, name)!r}")
        if self.momentum >= 1:  # the sums of gradients would grow without end
            raise ConfigError(f"momentum must be below 1, found {self.momentum!r}")
        if self.sigma:
            check_sigma(self.sigma)
        check_seed("seed", self.seed)
        if any(drop < 1 for drop in self.lr_drops):
            raise ConfigError(f"lr_drops are epochs from 1 on, found {self.lr_drops}")
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum):
            raise ConfigError(
                "nesterov is a form of SGD's momentum: expected sgd and a momentum above 0, found "
                f"{self.optimizer} and {self.momentum:g}"
            )
        if self.as_printed:
            object.__setattr__(self, "method", {**self.method, "as_printed": True})
            if self.dataset == "imagenet":  # its test images are prepared otherwise
                object.__setattr__(self, "dataset", "imagenet-printed")
        elif self.method.get("as_printed"):
            raise ConfigError(
                "as_printed is a setting of the whole run, found it for the method alone: give it "
                "beside the method"
            )

    def learning_rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0: lr * factor^(e // step), or one epoch later with `lr_late`.

        The published one-epoch-late variant sets the rate at the end of epoch e from index e, so that with step 30
        the first drop comes after 31 epochs, not 30. `lr_drops` names the epochs instead.
        """
        if self.lr_drops:
            return self.lr * self.lr_factor ** sum(epoch >= drop for drop in self.lr_drops)
        return self.lr * self.lr_factor ** (max(epoch - self.lr_late, 0) // self.lr_step)


def read_config(path: Path) -> TrainConfig:
    return checked(TrainConfig, read_mapping(path, str(path)), f"setting in {path}")


def dump_config(config: TrainConfig) -> str:
    import yaml  # reports of logs can do without

    return yaml.safe_dump(dataclasses.asdict(config), sort_keys=False)
