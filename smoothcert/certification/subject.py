"""What results are about: the network, the data and the index set, as entries of a store's identity."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from torch import nn

from smoothcert.data import Dataset, ImageFolder
from smoothcert.models.build import initialise
from smoothcert.models.weights import weights_hash
from smoothcert.runs.selection import Selection


def subject(model: nn.Module, dataset: Dataset | ImageFolder, selection: Selection) -> dict[str, Any]:
    """What a store is about. The shard is not part of it: all shards of a set write to one store."""
    initialise(model, dataset.image(0).shape)
    return {
        "model": weights_hash(model),
        "network": sha256(repr(model).encode()).hexdigest(),  # same weights, another forward: another classifier
        "classes": dataset.classes,
        "dataset": dataset.name,
        "split": dataset.split,
        "data": dataset.fingerprint(),
        "start": selection.start,
        "every": selection.every,
        "max": selection.max,
    }
