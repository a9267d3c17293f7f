"""The settings of training, certification and attacks, each said once: as a frozen dataclass.

Command-line options, their defaults and help, config.yaml, the identity of a result store and the command that a report
prints are all derived from these. Importing this does not import PyTorch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

import yaml

from smoothcert.errors import ConfigError, unknown_name

T = TypeVar("T")

NoiseMode = Literal["quantised", "exact", "float", "uniform", "laplace"]
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
TrainingPrecision = Literal["tf32", "float32", "bfloat16"]
Kernels = Literal["auto", "off"]
AttackName = Literal["pgd", "ddn", "stein", "vanilla", "foolbox"]

N0, N, ALPHA = 100, 100_000, 0.001
"""Samples of the two stages and failure probability of the field's tables."""

NOISE: NoiseMode = "quantised"

_KERNELS = "auto: kernels of our own where the network has some; off: PyTorch's alone"


def setting(text: str, *, flag: str | None = None, nested: bool = False, **default: Any) -> Any:
    """A dataclass field with its one line of help, and its option where that has another name than the field.

    A `nested` field is a dataclass that the owner makes of a mapping by itself.
    """
    return field(metadata={"help": text, "flag": flag, "nested": nested}, **default)


@dataclass(frozen=True)
class SoftLabels:
    """How the soft labels of CAT-RS are made: `n` votes per image of a Gaussian model with `settings` of its own."""

    n: int = 10_000
    folder: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or not 1 <= self.n < 2**31:
            raise ConfigError(f"soft_labels.n, the votes per image, must be a whole number from 1 on, found {self.n!r}")
        if self.folder is not None and not isinstance(self.folder, str):
            raise ConfigError(f"soft_labels.folder must be a path, found {self.folder!r}")

    @classmethod
    def read(cls, given: Self | Mapping[str, Any]) -> Self:
        """From ``{n, folder, settings}``, where a setting of the model may also stand beside n and folder."""
        if isinstance(given, cls):
            return given
        values = dict(given)  # type: ignore[arg-type]
        known = {name: values.pop(name) for name in ("n", "folder") if name in values}
        return cls(**known, settings={**values.pop("settings", {}), **values})


@dataclass(frozen=True)
class SelfTraining:
    """The file of pseudo-labelled images, and the weight of their loss (the paper's eta)."""

    path: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ConfigError(f"self_training.weight must be a number from 0 on, found {self.weight!r}")

    @classmethod
    def read(cls, given: Self | Mapping[str, Any] | None) -> Self | None:
        if isinstance(given, cls) or not given:
            return given or None  # type: ignore[return-value]
        return build_dataclass(cls, given, "setting of self_training")  # type: ignore[arg-type]


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
    batch_size: int = setting("images per loaded batch, over all processes", default=256)
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
    precision: TrainingPrecision = setting(
        "of products on CUDA: tf32 as PyTorch's convolutions, full float32, or layers in bfloat16", default="tf32"
    )
    seed: int = setting("seed of initial weights, order, augmentation and noise", default=0)
    evaluate_every: int = setting("epochs between two measurements of noisy test accuracy; 0: never", default=1)
    init_from: str | None = setting(
        "run folder or published checkpoint to start from; its last layer is new where the classes differ",
        default=None,
    )
    soft_labels: SoftLabels = setting(
        "for methods with soft labels: n (votes per image), folder (to share them), and settings of their model",
        nested=True,
        default_factory=SoftLabels,
    )
    self_training: SelfTraining | None = setting(
        "self-training on pseudo-labelled images: path (a pickle or .npz file) and weight of their loss",
        nested=True,
        default=None,
    )
    kernels: Kernels = setting(
        "auto: kernels of our own where the network has some; off: PyTorch's alone", default="auto"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "soft_labels", SoftLabels.read(self.soft_labels))
        object.__setattr__(self, "self_training", SelfTraining.read(self.self_training))
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


@dataclass(frozen=True)
class CertifyConfig:
    """All that decides a certificate beside the network and the image. A result store belongs to exactly one."""

    sigma: float = setting("noise level; default: the one trained with")
    n0: int = setting("noise samples that select the class", default=N0)
    n: int = setting("fresh noise samples that bound its probability", default=N)
    alpha: float = setting("failure probability of a certificate", default=ALPHA)
    noise: NoiseMode = setting(
        "integer Gaussian noise, its exact law, the literature's float noise, or (for l1) uniform or Laplace noise",
        default=NOISE,
    )
    seed: int = setting("seed of the noise", default=0)
    radii: tuple[float, ...] | None = setting(
        "only test these radii, with few samples (0 for clean accuracy)", flag="radius", default=None
    )
    tolerance: float | None = setting(
        "stop sampling an input when its radius can grow by no more than this", default=None
    )
    skip_wrong: bool = setting("no certificate where the label is already missed", default=False)
    simultaneous: bool = setting("alpha for the whole set, not for each input", default=False)
    precision: Precision = setting("of the network's products; auto: float16 on CUDA, float32 on a CPU", default="auto")
    kernels: Kernels = setting(
        "auto: kernels of our own where the network has some; off: PyTorch's alone", default="auto"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", _rising(self.radii))

    @classmethod
    def of(cls, identity: Mapping[str, Any]) -> Self:
        """The settings that a store's manifest names."""
        names = [entry.name for entry in dataclasses.fields(cls)]
        return cls(**{name: identity[name] for name in names if identity.get(name) is not None})


@dataclass(frozen=True)
class AttackConfig:
    """All that decides the answer to an attacked image beside the network and the image.

    SmoothAdv's evaluation (arXiv:1906.04584, section 4.2) takes T = 20 steps and 1 to 128 noises (Stein: 512).
    """

    sigma: float = setting("noise level; default: the one trained with")
    radii: tuple[float, ...] = setting("l2 radii to attack at", flag="radius")
    attack: AttackName = setting(
        "SmoothAdv's PGD or DDN, gradient-free, PGD without noise, or foolbox's", default="pgd"
    )
    noises: int = setting("noises that an attack averages over", default=128)
    steps: int = setting("steps of an attack", default=20)
    n: int = setting("noise samples of PREDICT on the attacked image", default=10_000)
    alpha: float = setting("failure probability of PREDICT", default=ALPHA)
    noise: NoiseMode = setting("noise of PREDICT; see `certify`", default=NOISE)
    seed: int = setting("seed of the noise", default=0)
    precision: Precision = setting("of the network's products; auto: that of the certificates, if any", default="auto")
    kernels: Kernels = setting(
        "auto: kernels of our own where the network has some; off: PyTorch's alone", default="auto"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", _rising(self.radii) or ())
        if not self.radii or min(self.radii) <= 0:
            raise ConfigError(f"an attack needs radii above 0, found {list(self.radii)}")
        if self.attack not in get_args(AttackName):
            raise unknown_name("attack", self.attack, get_args(AttackName))
        if self.noises < 1 or self.steps < 1:
            raise ConfigError(f"an attack needs noises >= 1 and steps >= 1, found {self.noises} and {self.steps}")
        if self.noise in ("uniform", "laplace"):
            raise ConfigError(
                f"these attacks are about l2 changes, and {self.noise} noise certifies l1: use another noise"
            )


def _rising(radii: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if radii is None else tuple(sorted(radii))


def as_options(config: Any) -> list[str]:
    """The command-line words that give these settings again; one that is None or off needs none."""
    words: list[str] = []
    for entry in settings_of(type(config)):
        value = getattr(config, entry.name)
        if value is not None and value is not False:
            values = () if value is True else value if isinstance(value, tuple) else (value,)
            words += [option_of(entry), *map(str, values)]
    return words


def settings_of(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields that are options of a command: those made by `setting`."""
    return [entry for entry in dataclasses.fields(kind) if "help" in entry.metadata]


def option_of(entry: dataclasses.Field[Any]) -> str:
    """``--skip-wrong`` of the field `skip_wrong`."""
    return "--" + (entry.metadata.get("flag") or entry.name).replace("_", "-")


@dataclass(frozen=True)
class Recipe:
    """A named, complete TrainConfig, with what its source published for it."""

    name: str
    about: str
    config: TrainConfig
    published: Mapping[str, Any]


def recipe_names() -> list[str]:
    return sorted(f"{folder.name}/{file.name.removesuffix('.yaml')}" for folder, file in _shipped())


def load_recipe(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A shipped recipe by name, or a YAML file by path; `overrides` replace fields, and merge into those with keys."""
    shipped = {f"{folder.name}/{file.name.removesuffix('.yaml')}": file for folder, file in _shipped()}
    source: Traversable | Path = shipped.get(name, Path(name))
    if not source.is_file():
        raise unknown_name("recipe", name, shipped)
    values = _read_mapping(source, name)
    about, published = str(values.pop("about", "")), values.pop("published", {})
    changes = dict(overrides or {})
    there, asked = values.get("method"), changes.get("method")
    if (
        isinstance(there, dict)
        and isinstance(asked, dict)
        and asked.get("name", there.get("name")) == there.get("name")
    ):
        changes["method"] = {**there, **asked}  # under another method's name, the recipe's numbers would mean nothing
    for key in ("soft_labels", "self_training"):
        if isinstance(values.get(key), dict) and isinstance(changes.get(key), dict):
            changes[key] = {**values[key], **changes[key]}
    config = build_dataclass(TrainConfig, {**values, **changes}, f"setting of recipe {name}")
    return Recipe(name, about, config, published)


def read_config(path: Path) -> TrainConfig:
    return build_dataclass(TrainConfig, _read_mapping(path, str(path)), f"setting in {path}")


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
    nested = {name for name, entry in fields.items() if entry.metadata.get("nested")}
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, skip=nested)
    try:
        checked = parser.parse_object({name: value for name, value in values.items() if name not in nested}).as_dict()
    except Exception as error:
        raise ConfigError(f"unusable {what}: {' '.join(str(error).split())}") from error
    return kind(**checked, **{name: value for name, value in values.items() if name in nested})


def _required(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def _shipped() -> list[tuple[Traversable, Traversable]]:
    folders = [entry for entry in files("smoothcert").joinpath("recipes").iterdir() if entry.is_dir()]
    return [(folder, file) for folder in folders for file in folder.iterdir() if file.name.endswith(".yaml")]


def _read_mapping(source: Traversable | Path, name: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(source.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"could not read settings from {name}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"expected a YAML mapping of settings in {name}, found {type(values).__name__}")
    return values
