"""What results are about, as entries of a store's identity: network, data and index set, and how it is evaluated."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import torch
from torch import nn

from smoothcert.config import NoiseMode
from smoothcert.data import Dataset, LazyDataset
from smoothcert.errors import ModelError
from smoothcert.kernels.prepare import Prepared
from smoothcert.models.build import initialise
from smoothcert.models.weights import weights_hash
from smoothcert.noise.streams import stream
from smoothcert.runs.environment import device_kind
from smoothcert.runs.selection import Selection


def subject(
    model: nn.Module, dataset: Dataset | LazyDataset, selection: Selection
) -> dict[str, Any]:
    """What a store is about. The shard is not part of it: all shards of a set write to one store."""
    if not isinstance(
        model, nn.Module
    ):  # a function has no weights that could be hashed: on resume it may be another
        raise ModelError(
            f"stored results need a torch.nn.Module, whose weights they name, found a {type(model).__name__}"
        )
    initialise(model, dataset.image(0).shape)
    named = {"class_names": list(dataset.class_names)} if getattr(dataset, "by_name", False) else {}
    return {
        **named,
        "model": weights_hash(model),
        "network": _layers(model),  # same weights, another forward: another classifier
        "classes": dataset.classes,
        "dataset": dataset.name,
        "split": dataset.split,
        "data": dataset.fingerprint(),
        "start": selection.start,
        "every": selection.every,
        "max": selection.max,
    }


def _layers(model: nn.Module) -> str:
    """A hash of what PyTorch prints of the network, and whose words they are: other versions print others."""
    version = ".".join(torch.__version__.split(".")[:2])
    return f"torch {version}:{sha256(repr(model).encode()).hexdigest()}"


def evaluation(prepared: Prepared, noise: NoiseMode, device: torch.device) -> dict[str, Any]:
    """How the network is evaluated there, and on which noise."""
    return {
        "noise_stream": stream(noise),
        "device_type": device_kind(device),
        "precision": prepared.precision,
        "prepared": list(prepared.steps),
        "behaviour": prepared.behaviour,
    }
