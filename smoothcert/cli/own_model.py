"""Options that name a network from elsewhere and the data it is for, and the two made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.cli.frame import Place
from smoothcert.config import check_sigma, option_of
from smoothcert.errors import ConfigError
from smoothcert.runs.remote import local

if TYPE_CHECKING:
    from torch import nn

    from smoothcert.data import Dataset, LazyDataset
    from smoothcert.models.bring import Brought
    from smoothcert.runs.folder import ModelSpec


@dataclass(frozen=True)
class OwnModel:
    """What is said of a network from elsewhere."""

    model: str | None = None
    """network from elsewhere: PACKAGE.MODULE:NAME, FILE.py:NAME, hf:NAME, timm:NAME or torchvision:NAME"""
    weights: Path | None = None
    """its weights, a torch or safetensors file; default: as the network comes"""
    classes: int | None = None
    """number of classes; default: the network's, or that of the data"""
    mean: tuple[float, ...] | None = None
    """what is subtracted from the network's inputs: one value, or one per channel"""
    std: tuple[float, ...] | None = None
    """what they are then divided by: one value, or one per channel"""
    input_range: tuple[float, ...] | None = None
    """where [0,1] goes before mean and std: 0 1 (the default), -1 1 or 0 255"""
    normalisation: str | None = None
    """the same by a name, such as cifar10 or imagenet"""

    def __post_init__(self) -> None:
        if self.classes is not None and self.classes < 2:
            raise ConfigError(
                f"a classifier has at least 2 classes, found --classes {self.classes}: leave it out"
            )
        if self.model is None and (given := self._given()):
            raise ConfigError(
                f"{given[0]} is of a network that --model names, and none is named: leave it out"
            )

    def _given(self) -> list[str]:
        return [
            option_of(entry.name)
            for entry in fields(self)
            if entry.name != "model" and getattr(self, entry.name) is not None
        ]

    def stated_normalisation(self) -> str | None:
        """What mean, std and input range say, or the normalisation by name; None if nothing is said."""
        from smoothcert.models.normalise import InputForm

        stated = {"--mean": self.mean, "--std": self.std, "--input-range": self.input_range}
        given = [flag for flag, numbers in stated.items() if numbers is not None]
        if not given:
            return self.normalisation
        if self.normalisation is not None:
            raise ConfigError(
                f"--normalisation {self.normalisation} and {given[0]} say it twice: leave one out"
            )
        limits = self.input_range or (0.0, 1.0)
        if len(limits) != 2:
            raise ConfigError(
                f"--input-range takes two numbers, low then high, found {len(limits)}"
            )
        return InputForm(self.mean or (), self.std or (), (limits[0], limits[1])).text()


@dataclass(frozen=True)
class Images:
    """Which images: those of a run, or others."""

    data: str | None
    split: str
    data_dir: Path | None


@dataclass(frozen=True, eq=False)
class Subject:
    """What is certified: a network, its description, and the images."""

    model: nn.Module
    spec: ModelSpec
    data: Dataset | LazyDataset
    keep: Callable[[], None] | None = (
        None  # writes what must be kept of the network, once it has passed all checks
    )


def known_sigma(run: Place | None, given: dict[str, Any]) -> float | None:
    """The noise that is asked for, or that the run was trained with."""
    from smoothcert.runs.folder import RunFolder

    if "sigma" in given:
        return check_sigma(given["sigma"])
    return None if run is None else RunFolder(local(run)).spec().sigma


def run_subject(run: Place, images: Images, trust_code: bool) -> Subject:
    """Of a run folder; with the images that it names, or with others."""
    from smoothcert.runs.data_of import data_of_run
    from smoothcert.runs.folder import RunFolder

    model, spec = RunFolder(local(run, weights=True)).load_model(trust_code=trust_code)
    return Subject(model, spec, data_of_run(spec, images.split, images.data_dir, images.data))


def own_subject(own: OwnModel, images: Images, sigma: float, out: Path) -> Subject:
    """Of a network from elsewhere, to be kept in the run folder `out` with all that is known of it."""
    from smoothcert.data.corruptions import is_corrupted
    from smoothcert.runs.brought import check_free, keep_model
    from smoothcert.runs.folder import RunFolder

    run = RunFolder(out)
    check_sigma(sigma)
    if is_corrupted(str(images.data)):
        raise ConfigError(
            f"{images.data} is of other data than the network's own: certify on clean images first, then "
            f"`smoothcert certify {out} --data {images.data}`"
        )
    check_free(run)
    brought, subject = bring(own, images, sigma)
    return replace(subject, keep=lambda: keep_model(run, brought, subject.spec))


def check_named(own: OwnModel, run: Place | None, **needed: object) -> None:
    """Whether one network is named, and with one from elsewhere all that it needs."""
    if (run is None) == (own.model is None):
        found = "none" if run is None else f"--model {own.model} and {run}"
        raise ConfigError(
            f"name one network, by a run folder or by --model and --data, found {found}"
        )
    missing = [option_of(name) for name, value in needed.items() if value is None]
    if own.model is not None and missing:
        raise ConfigError(f"--model {own.model} also needs {' and '.join(missing)}")


def bring(own: OwnModel, images: Images, sigma: float) -> tuple[Brought, Subject]:
    """The network and its data, both loaded and tried together; nothing is written."""
    import numpy as np
    import torch

    from smoothcert.data import load_dataset, with_classes
    from smoothcert.models.bring import bring_model, find_model
    from smoothcert.runs.brought import describe

    assert own.model is not None
    assert images.data is not None
    normalisation = own.stated_normalisation()
    found = find_model(own.model, own.weights)
    known: dict[str, Any] = {"shape": found.shape, "class_names": found.class_names}
    known["classes"] = own.classes or found.classes
    data = load_dataset(images.data, images.split, images.data_dir, **known)
    image = torch.from_numpy(np.array(data.image(0)))
    brought = bring_model(
        found,
        image,
        own.classes or data.classes or None,
        weights=own.weights,
        normalisation=normalisation,
    )
    data = with_classes(data, brought.classes)
    spec = describe(brought, sigma, images.data, data.shape, data.class_names)
    return brought, Subject(brought.model, spec, data)
