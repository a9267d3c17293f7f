"""`smoothcert import`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.cli.frame import DataDir, Device, command
from smoothcert.config import check_sigma
from smoothcert.errors import DataError, SmoothcertError, StoreError, unknown_name
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from torch import nn

_BATCHES, _BATCH = 4, 50


@command("Make")
def import_(
    checkpoint: Path,
    /,
    *,
    out: Path,
    sigma: float,
    data: str,
    arch: str | None = None,
    normalisation: str | None = None,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Take in a published checkpoint; makes a run folder

    Args:
        checkpoint: file as published: {'arch', 'state_dict'}
        out: new run folder
        sigma: noise level the model was trained with
        data: data set it was trained on
        arch: architecture, if the file does not say
        normalisation: first layer; default: the data set's
    """
    import torch

    from smoothcert.data import DATASETS
    from smoothcert.models import load_published
    from smoothcert.models.build import check_network, is_code
    from smoothcert.runs.folder import ModelSpec, RunFolder

    if data not in DATASETS:
        raise unknown_name("data set", data, DATASETS)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StoreError(f"{out} is {'not empty' if out.is_dir() else 'a file'}: give a new --out")
    info = DATASETS[data]
    check_sigma(sigma)
    model, found = load_published(
        checkpoint, arch=arch, classes=info.classes, normalisation=normalisation
    )
    check_network(model, torch.zeros(info.shape), info.classes)
    accuracy = _accuracy(model, info.name, info.classes, sigma, data_dir, device)
    spec = ModelSpec(
        found["arch"], info.classes, found["normalisation"], sigma, info.name, info.shape
    )
    RunFolder(out).save_model(model.cpu(), spec)
    print(f"{out}: {spec.architecture}, {info.classes} classes, normalisation {spec.normalisation}")
    print(accuracy)
    trust = " --trust-code" if is_code(spec.architecture) else ""
    print(f"go on with `smoothcert certify {out}{trust}`")


def _accuracy(
    model: nn.Module,
    dataset: str,
    classes: int,
    sigma: float,
    data_dir: Path | None,
    chosen: str,
) -> str:
    """What a wrong normalisation, data set or noise level would show in."""
    from smoothcert.data import Batches, load_dataset
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.input_forms import like_guessing
    from smoothcert.training.noisy_accuracy import noisy_accuracy

    try:
        data = load_dataset(dataset, "test", data_dir, download=False)
        if data.classes != classes:
            raise DataError(f"{dataset} has {classes} classes, found images of {data.classes}")
    except SmoothcertError as error:
        return f"its accuracy was not checked, for want of the test images: {error}"
    device = pick_device(chosen)
    batches = islice(Batches(data, _BATCH, seed=0, device=device, workers=0).epoch(0), _BATCHES)
    accuracy, _ = noisy_accuracy(model.to(device), batches, sigma, classes)
    images = min(_BATCHES * _BATCH, len(data))
    shown = f"accuracy under noise of sigma {sigma:g} on {images} test images"
    chance = like_guessing(round(accuracy * images), images, classes)
    hint = (
        ". That is what guessing gives: check --normalisation, --data and --arch" if chance else ""
    )
    return f"{shown}: {in_percent(accuracy)} %{hint}"
