"""certify_dataset(): which inputs are missing -> certificates -> store."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy
import torch
from torch import nn

import smoothcert
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.data import Dataset, ImageFolder
from smoothcert.errors import ConfigError, DataError
from smoothcert.imports import has_triton
from smoothcert.kernels.prepare import Precision
from smoothcert.models.weights import weights_hash
from smoothcert.noise import streams as noise
from smoothcert.progress import Progress
from smoothcert.runs.store import CertificateStore, Manifest, format_row
from smoothcert.statistics import bounds
from smoothcert.statistics.sequential import procedure

GROUP_SECONDS = 0.5
LARGEST_GROUP = 256
"""Images that are certified at once: as many as take half a second, so that a crash costs no more."""


@dataclass(frozen=True)
class Selection:
    """Which inputs: from `start`, every `every`-th, at most `max` of them; of these, shard i of N takes each N-th."""

    start: int = 0
    every: int = 1
    max: int | None = None
    shard: int = 0
    shards: int = 1

    def __post_init__(self) -> None:
        if self.start < 0 or self.every < 1 or (self.max is not None and self.max < 1):
            raise ConfigError(
                f"expected start >= 0, every >= 1 and max >= 1, found {self.start}, {self.every}, {self.max}"
            )
        if not 0 <= self.shard < self.shards:
            raise ConfigError(f"a shard is i/N with 0 <= i < N, found {self.shard}/{self.shards}")

    def indices(self, size: int) -> list[int]:
        """All inputs of the set, whatever the shard."""
        return list(range(self.start, size, self.every))[: self.max]


def certify_dataset(
    model: nn.Module,
    dataset: Dataset | ImageFolder,
    out: Path | str,
    *,
    sigma: float,
    n0: int = 100,
    n: int = 100_000,
    alpha: float = 0.001,
    noise_mode: noise.NoiseMode = "quantised",
    seed: int = 0,
    selection: Selection | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    precision: Precision = "auto",
    radii: Sequence[float] | None = None,
    tolerance: float | None = None,
    skip_wrong: bool = False,
    simultaneous: bool = False,
    quiet: bool = False,
) -> CertificateStore:
    """Certify the selected inputs into the store at `out`, skipping those that any shard has already done.

    `radii`: only decide which of these radii are certified, with as few samples as that needs, n at most.
    `tolerance`: stop sampling an input when its radius could not grow by more than this.
    `skip_wrong`: no estimation samples where the selected class is not the label; such inputs are never certified
    correct, so certified accuracy and average certified radius stay the same.
    `simultaneous`: all certificates of the index set hold at once with probability 1 - alpha, not each alone.
    """
    chosen = selection or Selection()
    bounds.check_samples(n0, n, alpha)
    if noise_mode != "float" and not dataset.eight_bit:
        raise DataError(f"{dataset.name} is not 8-bit data: quantise it, or certify with noise 'float'")
    smoothed = SmoothedClassifier(
        model,
        sigma,
        dataset.classes,
        noise=noise_mode,
        seed=seed,
        device=device,
        batch_size=batch_size,
        precision=precision,
    )
    indices = chosen.indices(len(dataset))
    if not indices:
        raise ConfigError(f"start={chosen.start} leaves no input: {dataset.name} ({dataset.split}) has {len(dataset)}")
    alpha_each = alpha / len(indices) if simultaneous else alpha
    bounds.check_samples(n0, n, alpha_each)
    values = int(dataset.image(indices[0]).size)
    prepared = smoothed.prepare(dataset.image(indices[0]).shape)
    slack = noise.total_variation(noise_mode, sigma, values)
    law = noise.law_of(noise_mode)
    test = procedure(n, alpha_each, sigma, radii=radii, tolerance=tolerance, slack=slack, law=law)
    store = CertificateStore(Path(out))
    identity = {
        **(test.describe() if test else {"procedure": "fixed"}),
        **({"skip_wrong": True} if skip_wrong else {}),
        **({"simultaneous": True, "alpha_each": alpha_each} if simultaneous else {}),
        "sigma": sigma,
        "n0": n0,
        "n": n,
        "alpha": alpha,
        "split_alpha": bounds.DEFAULT_SPLIT,
        "seed": seed,
        "noise": noise_mode,
        "noise_stream": noise.stream(noise_mode, smoothed.device),
        **({"tau": slack} if slack else {}),
        **({"norm": bounds.NORMS[law]} if law != "gaussian" else {}),
        "device_type": device_kind(smoothed.device),
        "precision": prepared.precision,
        "prepared": list(prepared.steps),
        **subject(model, dataset, chosen),
    }
    about = {**environment(smoothed.device), "values": values, "skipped": list(prepared.skipped)}
    store.claim(Manifest(identity, len(indices), about))
    # dealt over all inputs, not over those missing: shards that start at different times still take disjoint ones
    mine = indices[chosen.shard :: chosen.shards]
    with store.writer(chosen.shard, chosen.shards) as part:
        done = store.done()
        missing = [index for index in mine if index not in done]
        what = f"certify {dataset.name} {dataset.split}"
        with Progress(what, len(mine), "images", done=len(mine) - len(missing), quiet=quiet) as bar:
            right = position = 0
            group = 1
            while position < len(missing):
                started = time.perf_counter()
                now = missing[position : position + group]
                labels = [int(dataset.labels[index]) for index in now]
                certificates = smoothed.certify_many(
                    [dataset.image(index) for index in now],
                    now,
                    n0=n0,
                    n=n,
                    alpha=alpha_each,
                    radii=radii,
                    tolerance=tolerance,
                    skip_unless=labels if skip_wrong else None,
                )
                seconds = (time.perf_counter() - started) / len(now)
                for index, label, certificate in zip(now, labels, certificates, strict=True):
                    row = format_row(
                        certificate, index=index, label=label, seconds=seconds, noise=noise_mode, seed=seed
                    )
                    part.add(row)
                    right += certificate.predict == label
                    position += 1
                    bar.advance(note=f"{100 * right / position:.1f} % certified correct")
                group = next_group(len(now), seconds)
    return store


def next_group(images: int, seconds_each: float) -> int:
    """How many images to certify at once next: as many as a crash may cost, and no sudden jump."""
    return max(1, min(2 * images, LARGEST_GROUP, int(GROUP_SECONDS / max(seconds_each, 1e-9))))


def subject(model: nn.Module, dataset: Dataset | ImageFolder, chosen: Selection) -> dict[str, str | int | None]:
    """What results are about, for a manifest's identity: the network, the data, the index set (not the shard)."""
    return {
        "model": weights_hash(model),
        "network": sha256(repr(model).encode()).hexdigest(),  # same weights, another forward: another classifier
        "classes": dataset.classes,
        "dataset": dataset.name,
        "split": dataset.split,
        "data": dataset.fingerprint(),
        "start": chosen.start,
        "every": chosen.every,
        "max": chosen.max,
    }


def device_kind(device: torch.device) -> str:
    """What keyed noise depends on: how PyTorch's CUDA generator deals a block out depends on the kind of GPU."""
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type


def environment(device: torch.device) -> dict[str, str]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "smoothcert": smoothcert.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "device": name,
        "host": platform.node(),
        "cuda": torch.version.cuda or "",
        "triton": version("triton") if has_triton() else "",
        "pid": str(os.getpid()),
    }
