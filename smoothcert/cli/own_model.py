"""Options that name a network from elsewhere and the data it is for, and the two made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_numbers, option, read_numbers
from smoothcert.config import check_sigma
from smoothcert.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

    from smoothcert.data import Dataset, LazyDataset
    from smoothcert.models.bring import Brought
    from smoothcert.runs.folder import ModelSpec

_OWN = ("--weights", "--classes", "--mean", "--std", "--input-range", "--normalisation", "--out")
DATA_HELP = "data set by name (`smoothcert datasets`), folder:PATH, tar:PATH, npz:PATH or hf-dataset:NAME_OR_FOLDER"


def add_own_model(parser: ArgumentParser) -> None:
    named = "network from elsewhere: PACKAGE.MODULE:NAME, FILE.py:NAME, hf:NAME, timm:NAME or torchvision:NAME"
    option(parser, "--model", str, None, named)
    option(
        parser,
        "--weights",
        Path,
        None,
        "its weights, a torch or safetensors file; default: as the network comes",
    )
    option(
        parser,
        "--classes",
        int,
        None,
        "number of classes; default: the network's, or that of the data",
    )
    add_numbers(
        parser,
        ("--mean",),
        "what is subtracted from the network's inputs: one value, or one per channel",
    )
    add_numbers(parser, ("--std",), "what they are then divided by: one value, or one per channel")
    add_numbers(
        parser,
        ("--input-range",),
        "where [0,1] goes before mean and std: 0 1 (the default), -1 1 or 0 255",
    )
    option(parser, "--normalisation", str, None, "the same by a name, such as cifar10 or imagenet")
    option(parser, "--data", str, None, DATA_HELP)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is certified: a network, its description, and the images."""

    model: nn.Module
    spec: ModelSpec
    data: Dataset | LazyDataset
    keep: Callable[[], None] | None = (
        None  # writes what must be kept of the network, once it has passed all checks
    )


def known_sigma(options: Options) -> float | None:
    """The noise that is asked for, or that the run was trained with."""
    from smoothcert.runs.folder import RunFolder
    from smoothcert.runs.remote import local

    if options.sigma is not None:
        return check_sigma(options.sigma)
    if options.run is None or options.model is not None:
        return None
    return RunFolder(local(options.run)).spec().sigma


def run_subject(options: Options) -> Subject:
    """Of a run folder; with the images that it names, or with others."""
    from smoothcert.data.corruptions import benchmark_for, load_corrupted
    from smoothcert.runs.data_of import data_of_run
    from smoothcert.runs.folder import RunFolder
    from smoothcert.runs.remote import local

    given = [flag for flag in _OWN if options.get(flag[2:].replace("-", "_")) is not None]
    if options.run is None:
        raise ConfigError("no network is named: give a run folder, or --model and --data")
    if given:
        raise ConfigError(
            f"{given[0]} belongs to --model, but {options.run} has its network already: leave it out"
        )
    model, spec = RunFolder(local(options.run, weights=True)).load_model(
        trust_code=options.trust_code
    )
    data: Dataset | LazyDataset
    if options.get("corruption") is not None:
        data = load_corrupted(
            benchmark_for(spec.dataset), options.corruption, options.severity, options.data_dir
        )
    else:
        data = data_of_run(spec, options.split, options.data_dir, options.data)
    return Subject(model, spec, data)


def own_subject(options: Options) -> Subject:
    """Of a network from elsewhere, to be kept in the run folder --out with all that is known of it."""
    from smoothcert.runs.brought import check_free, keep_model
    from smoothcert.runs.folder import RunFolder

    _require(options, "--data", "--sigma", "--out")
    if options.corruption is not None:
        raise ConfigError(
            f"--corruption {options.corruption} is of the data of a run: certify on clean images first, then "
            f"`smoothcert certify {options.out} --corruption {options.corruption}`"
        )
    run, sigma = RunFolder(options.out), check_sigma(options.sigma)
    check_free(run)
    brought, subject = bring(options, sigma)
    return replace(subject, keep=lambda: keep_model(run, brought, subject.spec))


def examined_subject(options: Options, sigma: float) -> Subject:
    """Of either, to look at; nothing will be written. A network from elsewhere has no noise level of its own."""
    if options.model is None:
        return run_subject(options)
    _require(options, "--data")
    return bring(options, sigma)[1]


def _require(options: Options, *flags: str) -> None:
    if options.run is not None:
        raise ConfigError(
            f"--model {options.model} and {options.run} both name a network: leave one out"
        )
    if missing := [flag for flag in flags if options[flag[2:]] is None]:
        raise ConfigError(f"--model {options.model} also needs {' and '.join(missing)}")


def bring(options: Options, sigma: float) -> tuple[Brought, Subject]:
    """The network and its data, both loaded and tried together; nothing is written."""
    import numpy as np
    import torch

    from smoothcert.data import load_dataset, with_classes
    from smoothcert.models.bring import bring_model, find_model
    from smoothcert.runs.brought import describe

    if options.classes is not None and options.classes < 2:
        raise ConfigError(
            f"--classes: a classifier has at least 2 classes, found {options.classes}"
        )
    normalisation = stated_normalisation(options)
    found = find_model(options.model, options.weights)
    known: dict[str, Any] = {"shape": found.shape, "class_names": found.class_names}
    known["classes"] = options.classes or found.classes
    data = load_dataset(options.data, options.split, options.data_dir, **known)
    image = torch.from_numpy(np.array(data.image(0)))
    brought = bring_model(
        found,
        image,
        options.classes or data.classes or None,
        weights=options.weights,
        normalisation=normalisation,
    )
    data = with_classes(data, brought.classes)
    spec = describe(brought, sigma, options.data, data.shape, data.class_names)
    return brought, Subject(brought.model, spec, data)


def stated_normalisation(options: Options) -> str | None:
    """What --mean, --std and --input-range say, or --normalisation; None if nothing is said."""
    from smoothcert.models.normalise import InputForm

    flags = ("--mean", "--std", "--input-range")
    mean, std, limits = (read_numbers(options[flag[2:].replace("-", "_")], flag) for flag in flags)
    given = [
        flag
        for flag, numbers in zip(flags, (mean, std, limits), strict=True)
        if numbers is not None
    ]
    if not given:
        text: str | None = options.normalisation
        return text
    if options.normalisation is not None:
        raise ConfigError(
            f"--normalisation {options.normalisation} and {given[0]} say it twice: leave one out"
        )
    limits = limits or (0.0, 1.0)
    if len(limits) != 2:
        raise ConfigError(f"--input-range takes two numbers, low then high, found {len(limits)}")
    return InputForm(mean or (), std or (), (limits[0], limits[1])).text()
