"""Soft labels for CAT-RS: how a Gaussian model votes on noisy copies of each training image (arXiv:2212.09000, eq. 10).

A soft-label folder holds, each written whole or not at all:

    model/        run folder of the Gaussian model (sigma 0.25 whatever the sigma of the run that uses the labels);
                  finished labels need its weights no more
    parts-.../    votes of finished groups of images while they are being made
    counts.npy    votes [images, classes] as integers; a row divided by n is the soft label
    labels.json   what they are votes of, and the SHA-256 of counts.npy; written last

Votes are hard, as in the paper's equation. Like the published code they are taken on one augmented view of each image,
not on the image as stored, which is what equation 10 says, and what is done as printed. All noise
is keyed by the image, so a killed process goes on and ends with the same counts.
Votes on other noise are votes as good: finished labels are read whatever their `noise_stream`, but parts are not mixed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.certification.counting import Request
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import PRETRAINED, CertifyConfig, NoiseMode, TrainConfig, checked
from smoothcert.data import Dataset, LazyDataset
from smoothcert.data.augment import cropped, draw_crops
from smoothcert.errors import ConfigError, StoreError
from smoothcert.files import atomic_write, file_sha256, write_text
from smoothcert.keys import derive
from smoothcert.methods import build_method, resolved
from smoothcert.models.weights import weights_hash
from smoothcert.noise.streams import stream
from smoothcert.progress import ProgressBar
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.identity import require_same
from smoothcert.runs.locks import locked
from smoothcert.training.ranks import Ranks

SIGMA = 0.25
PART = 500
"""Images whose votes are stored together: what a crash can cost."""


@dataclass(frozen=True)
class Plan:
    """Where soft labels lie, which model votes, and on how many noisy copies per image."""

    folder: Path
    model: TrainConfig
    n: int

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"

    @property
    def finished(self) -> bool:
        return (self.folder / "labels.json").exists()

    def lock(self) -> AbstractContextManager[object]:
        """Runs that share a folder and start together: one makes the labels, the others wait for them."""
        return locked(self.folder / ".lock", None)


def plan(config: TrainConfig, out: Path) -> Plan:
    """The soft labels a run needs, by its `soft_labels` settings: n, folder, and any setting of the Gaussian model.

    Other settings are those of the run, except sigma 0.25, seed 0, and no weights to start from but those that a
    network comes with: runs that differ only in method, sigma or seed need the same labels and may share a `folder`. By
    default it is ``<out>/soft-labels``.
    """
    method, name = build_method(config.method), config.method["name"]
    if not method.uses_soft_labels:
        raise ConfigError(
            f"expected a method that reads soft labels, such as catrs, found {name}, which as it is set reads none: "
            "give another recipe, or train this one without soft labels"
        )
    if config.self_training:
        raise ConfigError(
            f"self_training has no soft labels, which the method {name} needs: leave one of them out"
        )
    labels = config.soft_labels
    start = config.init_from if config.init_from == PRETRAINED else None
    fixed = {
        "sigma": SIGMA,
        "seed": 0,
        "method": {"name": "gaussian"},
        "soft_labels": {},
        "init_from": start,
    }
    values = {**dataclasses.asdict(config), **fixed, **labels.settings}
    model = checked(TrainConfig, values, "setting of soft_labels (besides n and folder)")
    return Plan(Path(labels.folder) if labels.folder else out / "soft-labels", model, labels.n)


def check(wanted: Plan, train: Dataset | LazyDataset) -> None:
    """Refuse a folder of other labels, before anything is written for the run that wants them."""
    model = resolved(wanted.model, build_method(wanted.model.method))
    RunFolder(wanted.model_folder).check(model)
    if wanted.finished:
        _record(wanted.folder, _settings(wanted, train))


def _settings(wanted: Plan, train: Dataset | LazyDataset) -> dict[str, Any]:
    """All that the labels depend on, except the weights of the model that votes."""
    model = wanted.model
    settings = {"n": wanted.n, "sigma": model.sigma, "seed": model.seed, "augment": _view(model)}
    return {**settings, "data": train.fingerprint()}


def vote(
    wanted: Plan, model: nn.Module, train: Dataset | LazyDataset, ranks: Ranks, quiet: bool
) -> np.ndarray:
    """The votes [images, classes] of the plan's model, memory-mapped: read if they are there, else made to the end."""
    identity = {**_settings(wanted, train), "model": weights_hash(model)}
    if not wanted.finished:
        made_with = {**identity, "noise_stream": stream(_noise(train))}
        key = hashlib.sha256(json.dumps(made_with, sort_keys=True).encode()).hexdigest()[:16]
        parts = wanted.folder / f"parts-{key}"
        _make_parts(parts, wanted, model, train, ranks, quiet)
        ranks.wait()
        if ranks.is_main:
            _join(parts, wanted.folder, made_with, len(train), train.classes)
    ranks.wait()
    return _read(wanted.folder, identity)


def read(wanted: Plan, train: Dataset | LazyDataset) -> np.ndarray:
    """Finished votes, whatever the weights of the model that voted were."""
    return _read(wanted.folder, _settings(wanted, train))


def _make_parts(
    parts: Path,
    wanted: Plan,
    model: nn.Module,
    train: Dataset | LazyDataset,
    ranks: Ranks,
    quiet: bool,
) -> None:
    """This rank's share of the groups that are not there yet."""
    seed = derive(wanted.model.seed, "soft-labels")
    config = CertifyConfig(wanted.model.sigma, noise=_noise(train), seed=seed)
    smoothed = SmoothedClassifier(model, config, classes=train.classes, device=ranks.device)
    small = np.uint16 if wanted.n < 2**16 else np.int32  # ImageNet's labels are 2.6 GB even so
    mine = range(0, len(train), PART)[ranks.rank :: ranks.world_size]
    missing = [first for first in mine if not _part(parts, first).exists()]
    done = len(mine) - len(missing)
    with ProgressBar(
        "soft labels", len(mine), "groups", done=done, quiet=quiet or not ranks.is_main
    ) as bar:
        for first in missing:
            indices = range(first, min(first + PART, len(train)))
            views = _views(wanted.model, train, indices, ranks.device)
            requests = [Request(k, i, "prediction", 0, wanted.n) for k, i in enumerate(indices)]
            with atomic_write(_part(parts, first)) as file:
                np.save(file, smoothed.count_many(views, requests).astype(small))
            bar.advance()


def _noise(train: Dataset | LazyDataset) -> NoiseMode:
    return "exact" if train.eight_bit else "float"


def _view(config: TrainConfig) -> str:
    """How an image is augmented that is voted on."""
    return "none" if config.as_printed else config.augment


def _views(
    config: TrainConfig, train: Dataset | LazyDataset, indices: range, device: torch.device
) -> Sequence[Tensor]:
    """The one view of each image that is voted on, [C, H, W]."""
    keys = [derive(config.seed, "soft-labels", "augment", i) for i in indices]
    augment = _view(config)
    if isinstance(train, LazyDataset) and augment != "none":
        views = [
            train.train_image(i, np.random.default_rng(key))
            for i, key in zip(indices, keys, strict=True)
        ]
        return [torch.from_numpy(view).to(device) for view in views]
    if augment == "none":
        return [torch.from_numpy(np.array(train.image(i))).to(device) for i in indices]
    images = torch.from_numpy(np.stack([train.image(i) for i in indices])).to(device)
    draws = [draw_crops(1, torch.Generator().manual_seed(key)) for key in keys]
    return cropped(images, torch.cat(draws, dim=1)).unbind()


def _part(parts: Path, first: int) -> Path:
    return parts / f"{first:08d}.npy"


def _join(parts: Path, folder: Path, identity: dict[str, Any], images: int, classes: int) -> None:
    """Write one file of all parts, then labels.json, then delete the parts."""
    files = [_part(parts, first) for first in range(0, images, PART)]
    kind = np.load(files[0]).dtype
    with atomic_write(folder / "counts.npy") as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(kind),
            "fortran_order": False,
            "shape": (images, classes),
        }
        np.lib.format.write_array_header_1_0(file, header)
        for path in files:
            file.write(np.load(path).tobytes())
    record = {"identity": identity, "sha256": file_sha256(folder / "counts.npy")}
    write_text(folder / "labels.json", json.dumps(record, indent=2) + "\n")
    shutil.rmtree(parts)


def _record(folder: Path, identity: dict[str, Any]) -> str:
    """The checksum in labels.json; an error if its identity differs from the one given."""
    try:
        record = json.loads((folder / "labels.json").read_text())
        there, digest = dict(record["identity"]), record["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{folder / 'labels.json'} is damaged ({error}): delete it to make the soft labels again"
        ) from error
    require_same(
        {
            key: there.get(key) for key in identity
        },  # `check` and `read` have no weights of the model
        identity,
        holds=f"{folder} holds other soft labels than this run needs",
        advice="give another folder, or the settings they were made with",
    )
    return str(digest)


def _read(folder: Path, identity: dict[str, Any]) -> np.ndarray:
    digest = _record(folder, identity)
    path = folder / "counts.npy"
    if not path.is_file() or file_sha256(path) != digest:
        raise StoreError(
            f"{path} is not the file that labels.json describes: delete labels.json to make it again"
        )
    counts: np.ndarray = np.load(path, mmap_mode="r")
    return counts
