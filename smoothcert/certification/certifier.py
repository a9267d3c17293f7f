"""Certifier: the network prepared on one device, and the rows that it makes of images, wherever these come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from smoothcert.certification.images import Image, check_image
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.certification.subject import evaluation
from smoothcert.config import CertifyConfig
from smoothcert.data import UNLABELLED
from smoothcert.devices.memory import SMALLEST
from smoothcert.errors import NoFunctionError
from smoothcert.kernels.prepare import Prepared
from smoothcert.runs.counts import written
from smoothcert.runs.environment import environment
from smoothcert.runs.executor import Row
from smoothcert.statistics.procedure import Certificate


class Certifier:
    """Makes the rows of a store. `identity` is all of the store's that depends on where and how they are made.

    Every process that makes rows of one store has one of its own, and all must have the same `identity`. `seed` keys
    the noise, and `alpha` is that of one certificate: both are decided once for the store.
    """

    def __init__(
        self,
        model: nn.Module,
        classes: int,
        config: CertifyConfig,
        example: Image,
        *,
        seed: int,
        alpha: float,
        device: str | torch.device | None = None,
        batch_size: int | None = None,
    ) -> None:
        keyed = replace(config, seed=seed, alpha=alpha, simultaneous=False)
        self._smoothed = SmoothedClassifier(
            model, keyed, classes=classes, device=device, batch_size=batch_size
        )
        self._smoothed.plan(example.shape)  # what nothing can prove fails here
        self._prepared = prepared = self._smoothed.prepare(example)
        # a network that cannot take the images fails here, before there is a store
        self._smoothed.count(check_image(example), SMALLEST, "prediction", 0)
        dimension = math.prod(example.shape)
        self.identity = identity_of(config, dimension, prepared, self._smoothed.device)
        made = environment(self._smoothed.device)
        self.environment = {**made, "skipped": list(prepared.skipped)}

    @property
    def rechecked(self) -> tuple[int, int]:
        """Answers that were evaluated a second time, and how many of them differed."""
        return self._smoothed.rechecked

    def rows(
        self, indices: Sequence[int], images: Sequence[Image], labels: Sequence[int]
    ) -> Iterator[Row]:
        if self._smoothed.prepare(images[0]) is not self._prepared:
            raise NoFunctionError(
                "the model has changed since it was begun to be certified (its weights, buffers, hooks or attributes): "
                "the rows of a store are about one network. Leave it as it is, or certify into a new store"
            )
        certificates = self._smoothed.certify_many(images, indices, labels)
        for index, label, certificate in zip(indices, labels, certificates, strict=True):
            yield certificate_row(certificate, index=index, label=label)


def identity_of(
    config: CertifyConfig, dimension: int, prepared: Prepared, device: torch.device
) -> dict[str, Any]:
    """All that decides the rows of a store, except what they are about (`subject`)."""
    evaluated = evaluation(prepared, config.noise, device)
    entries = {**vars(config), "dimension": dimension, **evaluated}
    if config.radii is not None:
        entries["radii"] = list(config.radii)
    return {name: value for name, value in entries.items() if value is not None}


def certificate_row(certificate: Certificate, *, index: int, label: int) -> dict[str, object]:
    """A certificate as a row of a store."""
    return {
        "idx": index,
        "label": label,
        "predict": certificate.predict,
        "radius": certificate.radius,
        # else an abstention, -1, would be right where there is no label
        "correct": int(certificate.predict == label != UNLABELLED),
        "counts0": written(certificate.counts0),
        "counts": written(certificate.counts),
        "path": " ".join(map(str, certificate.path)),
    }
