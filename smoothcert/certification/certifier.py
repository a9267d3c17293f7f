"""Certifier: the network prepared on one device, and the rows that it makes of images, wherever these come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from smoothcert.certification.images import Image, check_image
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.certification.subject import evaluation
from smoothcert.config import CertifyConfig
from smoothcert.data import UNLABELLED
from smoothcert.devices.memory import SMALLEST
from smoothcert.errors import NoFunctionError
from smoothcert.kernels.prepare import Prepared
from smoothcert.runs.environment import environment
from smoothcert.runs.executor import Row
from smoothcert.statistics.procedure import SPLIT, Certificate, Procedure
from smoothcert.statistics.stopping import describe


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
        keyed = replace(config, seed=seed)
        self._smoothed = SmoothedClassifier.of(
            model, classes, keyed, device=device, batch_size=batch_size
        )
        self._config, self._seed = config, seed
        self._plan = self._smoothed.plan(
            example.shape, config.n0, config.n, alpha, config.radii, config.tolerance
        )
        self._prepared = prepared = self._smoothed.prepare(example)
        # a network that cannot take the images fails here, before there is a store
        self._smoothed.count(check_image(example), SMALLEST, "prediction", 0)
        self.identity = identity_of(config, self._plan, prepared, self._smoothed.device)
        made = environment(self._smoothed.device)
        self.environment = {
            **made,
            "values": math.prod(example.shape),
            "skipped": list(prepared.skipped),
        }

    @property
    def rechecked(self) -> tuple[int, int]:
        """Answers that were evaluated a second time, and how many of them differed."""
        return self._smoothed.rechecked

    def rows(
        self, indices: Sequence[int], images: Sequence[Image], labels: Sequence[int]
    ) -> Iterator[Row]:
        config = self._config
        wanted = labels if config.skip_wrong else None
        if self._smoothed.prepare(images[0]) is not self._prepared:
            raise NoFunctionError(
                "the model has changed since it was begun to be certified (its weights, buffers, hooks or attributes): "
                "the rows of a store are about one network. Leave it as it is, or certify into a new store"
            )
        certificates = self._smoothed.certify_planned(images, indices, self._plan, wanted)
        for index, label, certificate in zip(indices, labels, certificates, strict=True):
            yield certificate_row(
                certificate, index=index, label=label, noise=config.noise, seed=self._seed
            )


def identity_of(
    config: CertifyConfig, procedure: Procedure, prepared: Prepared, device: torch.device
) -> dict[str, Any]:
    """All that decides the rows of a store, except what they are about (`subject`)."""
    entries: Mapping[str, Any] = {
        **vars(config),
        **describe(procedure.stopping),
        "alpha_each": procedure.alpha,
        "split_alpha": SPLIT,
        "tau": procedure.tau,
        "norm": procedure.law.norm,
        **evaluation(prepared, config.noise, device),
    }
    return {name: value for name, value in entries.items() if value is not None}


def certificate_row(
    certificate: Certificate, *, index: int, label: int, noise: str, seed: int
) -> dict[str, object]:
    """A certificate as a row of a store."""
    return {
        "idx": index,
        "label": label,
        "predict": certificate.predict,
        "radius": certificate.radius,
        "correct": int(
            certificate.predict == label != UNLABELLED
        ),  # else an abstention, -1, would be right
        "n0": int(certificate.counts0.sum()),
        "n": int(certificate.counts.sum()),
        "counts0": _sparse(certificate.counts0),
        "counts": _sparse(certificate.counts),
        "p_lower": certificate.p_lower,
        "multiclass_radius": certificate.multiclass_radius,
        "noise": noise,
        "seed": seed,
    }


def _sparse(counts: NDArray[np.int64]) -> str:
    """``class:count`` of the classes that were seen, so that 1000 classes do not make long rows."""
    return ",".join(f"{label}:{counts[label]}" for label in np.flatnonzero(counts))
