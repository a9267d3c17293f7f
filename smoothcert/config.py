"""Settings of a training run. Importing this does not import PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from smoothcert.errors import ConfigError, unknown_name

T = TypeVar("T")


def setting(text: str, **default: Any) -> Any:
    """A dataclass field with its one line of help."""
    return field(metadata={"help": text}, **default)


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the weights. Written to config.yaml; a run folder belongs to exactly one."""

    dataset: str = setting("name of the data set, see `smoothcert datasets`")
    model: str = setting(
        "architecture: lenet, resnet20, resnet110, resnet50, timm:NAME, torchvision:NAME or a dotted path"
    )
    sigma: float = setting("standard deviation of the Gaussian noise, in units of the [0,1] image")
    method: dict[str, Any] = setting(
        "training method and its hyperparameters, e.g. --method.name consistency --method.lam 5"
    )
    epochs: int = setting("passes over the training set", default=90)
    batch_size: int = setting("images a loaded batch, over all processes", default=256)
    lr: float = setting("initial learning rate of SGD", default=0.01)
    momentum: float = setting("momentum of SGD (never Nesterov)", default=0.9)
    weight_decay: float = setting("weight decay, on every parameter", default=1e-4)
    lr_step: int = setting("epochs between two drops of the learning rate", default=30)
    lr_factor: float = setting("factor of each drop", default=0.1)
    lr_late: bool = setting(
        "drop one epoch late, as the published code of Consistency, SmoothMix and CAT-RS does", default=False
    )
    lr_drops: list[int] = setting(
        "epochs (from 0) whose start drops the rate, instead of every lr_step", default_factory=list
    )
    normalisation: str = setting("first layer of the network, see models/normalise.py", default="none")
    augment: Literal["none", "crop-flip", "imagenet"] = setting("training-image augmentation", default="none")
    precision: Literal["tf32", "float32", "bfloat16"] = setting(
        "of products on CUDA: tf32 as PyTorch's convolutions, full float32, or layers in bfloat16", default="tf32"
    )
    seed: int = setting("seed of initial weights, order, augmentation and noise", default=0)
    evaluate_every: int = setting("epochs between two measurements of noisy test accuracy; 0: never", default=1)
    init_from: str | None = setting(
        "run folder or published checkpoint to start from; its last layer is new where the classes differ",
        default=None,
    )
    soft_labels: dict[str, Any] = setting(
        "for methods with soft labels: n (votes an image), folder (to share them), and settings of their model",
        default_factory=dict,
    )
    self_training: dict[str, Any] = setting(
        "self-training on pseudo-labelled images: path (a pickle or .npz file) and weight of their loss",
        default_factory=dict,
    )

    def __post_init__(self) -> None:
        for name in ("sigma", "lr", "lr_factor"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, found {getattr(self, name)!r}")
        for name in ("epochs", "batch_size", "lr_step"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)!r}")
        for name in ("momentum", "weight_decay", "evaluate_every"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, found {getattr(self, name)!r}")
        if any(drop < 1 for drop in self.lr_drops):
            raise ConfigError(f"lr_drops are epochs from 1 on, found {self.lr_drops}")

    def learning_rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0: lr * factor^(e // step), or one epoch later with `lr_late`.

        The published one-epoch-late variant sets the rate at the end of epoch e from index e, so that with step 30
        the first drop comes after 31 epochs, not 30. `lr_drops` names the epochs instead.
        """
        if self.lr_drops:
            return self.lr * self.lr_factor ** sum(epoch >= drop for drop in self.lr_drops)
        return self.lr * self.lr_factor ** (max(epoch - self.lr_late, 0) // self.lr_step)


def read_config(path: Path) -> TrainConfig:
    return build_dataclass(TrainConfig, read_mapping(path, str(path)), f"setting in {path}")


def dump_config(config: TrainConfig) -> str:
    return yaml.safe_dump(dataclasses.asdict(config), sort_keys=False)


def build_dataclass(kind: type[T], values: Mapping[str, Any], what: str) -> T:
    """`kind(**values)` with misspelt names, missing values and wrong types refused in words."""
    from jsonargparse import ArgumentParser  # its type checks come from the annotations

    fields = {entry.name: entry for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise unknown_name(what, name, fields)
    missing = [name for name, entry in fields.items() if name not in values and _required(entry)]
    if missing:
        raise ConfigError(f"missing {what}: {', '.join(missing)}")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind)
    try:
        checked = parser.parse_object(dict(values)).as_dict()
    except Exception as error:
        raise ConfigError(f"unusable {what}: {' '.join(str(error).split())}") from error
    return kind(**checked)


def _required(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def read_mapping(source: Traversable | Path, name: str) -> dict[str, Any]:
    """The settings in a YAML file; `name` is what an error calls it."""
    try:
        values = yaml.safe_load(source.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"could not read settings from {name}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"expected a YAML mapping of settings in {name}, found {type(values).__name__}")
    return values
