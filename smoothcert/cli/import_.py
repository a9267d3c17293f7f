"""`smoothcert import`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_machine, option
from smoothcert.config import check_sigma
from smoothcert.errors import DataError, SmoothcertError, StoreError, unknown_name
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from torch import nn

ABOUT = "Make a run folder of a published checkpoint."

_BATCHES, _BATCH = 4, 50


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", type=Path, help="checkpoint as published: {'arch', 'state_dict'}"
    )
    parser.add_argument("--out", type=Path, required=True, help="new run folder")
    option(parser, "--sigma", float, None, "noise level the model was trained with", required=True)
    parser.add_argument("--dataset", type=str, required=True, help="data set it was trained on")
    option(parser, "--arch", str, None, "architecture, if the file does not say")
    option(parser, "--normalisation", str, None, "first layer; default: the data set's")
    add_machine(parser)


def run(options: Options) -> None:
    import torch

    from smoothcert.data import DATASETS
    from smoothcert.models import load_published
    from smoothcert.models.build import check_network, is_code
    from smoothcert.runs.folder import ModelSpec, RunFolder

    if options.dataset not in DATASETS:
        raise unknown_name("dataset", options.dataset, DATASETS)
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise StoreError(
            f"{options.out} is {'not empty' if options.out.is_dir() else 'a file'}: give a new --out"
        )
    info, sigma = DATASETS[options.dataset], check_sigma(options.sigma)
    model, found = load_published(
        options.checkpoint,
        arch=options.arch,
        classes=info.classes,
        normalisation=options.normalisation,
    )
    check_network(model, torch.zeros(info.shape), info.classes)
    accuracy = _accuracy(model, info.name, info.classes, sigma, options)
    spec = ModelSpec(
        found["arch"], info.classes, found["normalisation"], sigma, info.name, info.shape
    )
    RunFolder(options.out).save_model(model.cpu(), spec)
    print(
        f"{options.out}: {spec.architecture}, {info.classes} classes, normalisation {spec.normalisation}"
    )
    print(accuracy)
    trust = " --trust-code" if is_code(spec.architecture) else ""
    print(f"go on with `smoothcert certify {options.out}{trust}`")


def _accuracy(model: nn.Module, dataset: str, classes: int, sigma: float, options: Options) -> str:
    """What a wrong normalisation, data set or noise level would show in."""
    from smoothcert.data import Batches, load_dataset
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.input_forms import like_guessing
    from smoothcert.training.noisy_accuracy import noisy_accuracy

    try:
        data = load_dataset(dataset, "test", options.data_dir, download=False)
        if data.classes != classes:
            raise DataError(f"{dataset} has {classes} classes, found images of {data.classes}")
    except SmoothcertError as error:
        return f"its accuracy was not checked, for want of the test images: {error}"
    device = pick_device(options.device)
    batches = islice(Batches(data, _BATCH, seed=0, device=device, workers=0).epoch(0), _BATCHES)
    accuracy, _ = noisy_accuracy(model.to(device), batches, sigma, classes)
    images = min(_BATCHES * _BATCH, len(data))
    shown = f"accuracy under noise of sigma {sigma:g} on {images} test images"
    chance = like_guessing(round(accuracy * images), images, classes)
    hint = (
        ". That is what guessing gives: check --normalisation, --dataset and --arch"
        if chance
        else ""
    )
    return f"{shown}: {in_percent(accuracy)} %{hint}"
