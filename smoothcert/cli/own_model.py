"""Options that name a network from elsewhere and the data it is for, and the two made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_numbers, option, read_numbers
from smoothcert.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

    from smoothcert.data import Dataset, LazyDataset
    from smoothcert.models.bring import Brought
    from smoothcert.runs.folder import ModelSpec, RunFolder

_OWN = ("--weights", "--classes", "--mean", "--std", "--input-range", "--normalisation", "--out")
DATA_HELP = "data set by name (`smoothcert datasets`), folder:PATH, npz:PATH or hf-dataset:NAME_OR_FOLDER"


def add_own_model(parser: ArgumentParser) -> None:
    named = "network from elsewhere: PACKAGE.MODULE:NAME, FILE.py:NAME, hf:NAME, timm:NAME or torchvision:NAME"
    option(parser, "--model", str, None, named)
    option(parser, "--weights", Path, None, "its weights, a torch or safetensors file; default: as the network comes")
    option(parser, "--classes", int, None, "number of classes; default: the network's, or that of the data")
    add_numbers(parser, ("--mean",), "what the network's inputs were normalised by: one value, or one per channel")
    add_numbers(parser, ("--std",), "likewise")
    add_numbers(parser, ("--input-range",), "where [0,1] goes before mean and std: 0 1 (the default), -1 1 or 0 255")
    option(parser, "--normalisation", str, None, "the same by a name, such as cifar10 or imagenet")
    option(parser, "--data", str, None, DATA_HELP)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is certified: a network, its description, the images, and the run folder of both."""

    run: RunFolder
    model: nn.Module
    spec: ModelSpec
    data: Dataset | LazyDataset


def run_subject(options: Options) -> Subject:
    """Of a run folder; with the images that it names, or with others."""
    from smoothcert.data import load_dataset
    from smoothcert.data.corruptions import load_corrupted
    from smoothcert.runs.folder import RunFolder

    given = [flag for flag in _OWN if options[flag[2:].replace("-", "_")] is not None]
    if options.run is None:
        raise ConfigError("nothing to certify: give a run folder, or --model, --data, --sigma and --out")
    if given:
        raise ConfigError(f"{given[0]} belongs to --model, but {options.run} has its network already: leave it out")
    run = RunFolder(options.run)
    model, spec = run.load_model(trust_code=options.trust_code)
    data: Dataset | LazyDataset
    if options.corruption is not None:
        if options.data is not None:
            raise ConfigError("--corruption and --data both name images: leave one out")
        data = load_corrupted(f"{spec.dataset}-c", options.corruption, options.severity, options.data_dir)
    else:
        name, shape, classes = options.data or spec.dataset, spec.shape, spec.classes
        data = load_dataset(name, options.split, options.data_dir, shape=shape, classes=classes)
    return Subject(run, model, spec, data)


def own_subject(options: Options) -> Subject:
    """Of a network from elsewhere, which is kept in the run folder --out with all that is known of it."""
    from smoothcert.runs.brought import check_free, describe, keep_model
    from smoothcert.runs.folder import RunFolder
    from smoothcert.statistics.bounds import check_sigma

    if options.run is not None:
        raise ConfigError(
            f"--model {options.model} and the run folder {options.run} both name a network: leave one out"
        )
    missing = [flag for flag in ("--data", "--sigma", "--out") if options[flag[2:]] is None]
    if missing:
        raise ConfigError(f"--model {options.model} also needs {' and '.join(missing)}")
    run, sigma = RunFolder(options.out), check_sigma(options.sigma)
    check_free(run)
    brought, data = bring(options)
    spec = describe(brought, sigma, options.data, data.shape, data.class_names)
    keep_model(run, brought, spec)
    return Subject(run, brought.model, spec, data)


def bring(options: Options) -> tuple[Brought, Dataset | LazyDataset]:
    """The network and its data, both loaded and tried together; nothing is written."""
    import numpy as np
    import torch

    from smoothcert.data import load_dataset, with_classes
    from smoothcert.models.bring import bring_model, find_model

    normalisation = stated_normalisation(options)
    found = find_model(options.model, options.weights)
    classes = options.classes or found.classes
    data = load_dataset(options.data, options.split, options.data_dir, shape=found.shape, classes=classes)
    image = torch.from_numpy(np.array(data.image(0)))
    known = options.classes or data.classes or None
    brought = bring_model(found, image, known, weights=options.weights, normalisation=normalisation)
    return brought, with_classes(data, brought.classes)


def stated_normalisation(options: Options) -> str | None:
    """What --mean, --std and --input-range say, or --normalisation; None if nothing is said."""
    from smoothcert.models.normalise import InputForm

    flags = ("--mean", "--std", "--input-range")
    mean, std, limits = (read_numbers(options[flag[2:].replace("-", "_")], flag) for flag in flags)
    given = [flag for flag, numbers in zip(flags, (mean, std, limits), strict=True) if numbers is not None]
    if not given:
        text: str | None = options.normalisation
        return text
    if options.normalisation is not None:
        raise ConfigError(f"--normalisation {options.normalisation} and {given[0]} say it twice: leave one out")
    limits = limits or (0.0, 1.0)
    if len(limits) != 2:
        raise ConfigError(f"--input-range takes two numbers, low then high, found {len(limits)}")
    return InputForm(mean or (), std or (), (limits[0], limits[1])).text()
