"""The network that a training begins with: built by its settings, and filled with the weights that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.config import PRETRAINED, TrainConfig
from smoothcert.data import Dataset, LazyDataset
from smoothcert.errors import ConfigError, ModelError
from smoothcert.keys import derive
from smoothcert.methods.base import Method
from smoothcert.models.bring import find_model, fitting_normalisation
from smoothcert.models.build import (
    build_model,
    check_denoiser,
    check_network,
    count_classes,
    initialise,
    is_built_in,
)
from smoothcert.models.external import Found
from smoothcert.models.start import start_from, start_from_file
from smoothcert.runs.folder import ModelSpec, RunFolder


@dataclass(frozen=True, eq=False)
class Beginning:
    """A network on the CPU with its first weights, and what must be known to build it again."""

    model: nn.Module
    classes: int  # 0: a denoiser
    normalisation: str
    options: Mapping[str, Any]
    _found: Found | None  # with the weights that it comes with
    _init_from: str | None

    def start(self, trusted: str) -> None:
        """Copy the weights that training starts from. The code of `trusted`, which the settings name, may run."""
        self._copy_weights(trusted)
        bad = [
            name
            for name, value in self.model.state_dict().items()
            if value.is_floating_point() and not value.isfinite().all()
        ]
        if bad:
            raise ModelError(
                f"expected finite weights to start from, found NaN or infinity in {', '.join(bad[:3])}: "
                "start from others (init_from), or mend what the network makes of them"
            )

    def _copy_weights(self, trusted: str) -> None:
        path = self._init_from
        if self._found is not None and self._found.network is not None:
            source = nn.Sequential(nn.Identity(), self._found.network)
            start_from(
                self.model,
                source,
                self.classes,
                self._found.classes or self.classes,
                self._found.architecture,
            )
        if path in (None, PRETRAINED):
            return
        assert path is not None
        if not Path(path).is_dir():
            start_from_file(self.model, Path(path), self.classes)
            return
        run = RunFolder(path)
        model, spec = run.load_model(trusted=trusted, denoiser=self.classes == 0)
        start_from(self.model, model, self.classes, spec.classes, path)


def begin(config: TrainConfig, method: Method, train: Dataset | LazyDataset) -> Beginning:
    """The network for this data; a clear error if it does not fit. Nothing is written."""
    found, known = _find(config), _known(config)
    image = _first(train)
    classes = 0 if method.denoises else train.classes
    normalisation = config.normalisation
    if normalisation == PRETRAINED:
        normalisation = (
            known.normalisation
            if known
            else fitting_normalisation(found or Found(config.model), image)
        )
    if method.denoises and normalisation != "none":
        raise ConfigError(
            f"a denoiser gives back images in [0, 1]: normalisation none, found {normalisation!r}"
        )
    options = {
        **(known.options if known else found.options if found else {}),
        **config.model_options,
    }
    network = build_model(
        config.model, classes, normalisation, seed=derive(config.seed, "init"), **options
    )
    if method.denoises:
        initialise(network, tuple(image.shape))
        check_denoiser(network, image)
    else:
        check_network(network, image, classes)
    return Beginning(network, classes, normalisation, options, found, config.init_from)


def frozen_classifier(path: str, train: Dataset | LazyDataset, device: torch.device) -> nn.Module:
    """The classifier of a run folder, which takes images like these, in eval mode; no gradient reaches its weights."""
    model, spec = RunFolder(path).load_model()
    count_classes(model, _first(train), spec.classes)
    return model.requires_grad_(False).to(device)


def _first(train: Dataset | LazyDataset) -> Tensor:
    return torch.from_numpy(np.array(train.image(0)))


def _known(config: TrainConfig) -> ModelSpec | None:
    """What the run folder to start from says of the same architecture; None if there is none."""
    run = RunFolder(config.init_from or "")
    if config.init_from in (None, PRETRAINED) or not run.path.is_dir():
        return None
    return spec if (spec := run.spec()).architecture == config.model else None


def _find(config: TrainConfig) -> Found | None:
    """What comes with the network, where the settings ask for it, or cannot do without: hf's have no other options."""
    if config.init_from == PRETRAINED and is_built_in(config.model):
        raise ConfigError(
            f"the model {config.model} has no weights of its own: give init_from, a file or a run"
        )
    if PRETRAINED in (config.init_from, config.normalisation) or config.model.startswith("hf:"):
        return find_model(
            config.model, None if config.init_from == PRETRAINED else Path(config.init_from or "")
        )
    return None
