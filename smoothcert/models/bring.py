"""A trained network from elsewhere, with what must be known to build it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.errors import ConfigError, ModelError
from smoothcert.files import file_sha256
from smoothcert.models.build import build_model, count_classes, initialise, is_built_in, is_code
from smoothcert.models.external import (
    Found,
    classes_argument,
    default_classes,
    own_network,
    timm_pretrained,
    torchvision_pretrained,
)
from smoothcert.models.hf import hf_pretrained
from smoothcert.models.normalise import input_form, normalisation_layer
from smoothcert.models.state_files import load_weights_file


@dataclass(frozen=True, eq=False)
class Brought:
    """A network in eval mode that takes images in [0, 1], and how to build it again."""

    model: nn.Module
    architecture: str
    options: Mapping[str, Any]
    normalisation: str
    classes: int
    class_names: tuple[str, ...]
    source: str  # of its weights


def find_model(architecture: str, weights: Path | None = None) -> Found:
    """The network of that name. Those of hf, timm and torchvision come with their weights and their normalisation."""
    source, _, name = architecture.partition(":")
    if source == "hf":
        return hf_pretrained(name)
    if source in ("timm", "torchvision"):
        return (timm_pretrained if source == "timm" else torchvision_pretrained)(
            name, weights is None
        )
    if weights is None and is_built_in(architecture):
        raise ConfigError(
            f"the model {architecture} has no weights of its own: give a file of weights"
        )
    return Found(architecture)


def bring_model(
    found: Found,
    image: Tensor,
    classes: int | None = None,
    *,
    weights: Path | None = None,
    normalisation: str | None = None,
) -> Brought:
    """The network that was found, or one of your own, filled with `weights`, for images [C, H, W] like this one.

    A `normalisation` that is given replaces that of the network, but for the size that it looks at.
    """
    text = fitting_normalisation(found, image, normalisation)
    model: nn.Module
    if found.network is not None:
        model = nn.Sequential(normalisation_layer(text), found.network)
    else:
        classes = _own_count(found.architecture) if classes is None else classes
        model = build_model(found.architecture, classes or 2, text, seed=0, **found.options)
        initialise(model, tuple(image.shape))  # lazy layers have no weights before
        if weights is None:
            again = build_model(found.architecture, classes or 2, text, seed=1, **found.options)
            initialise(again, tuple(image.shape))
            if not same_states(model, again):
                raise ModelError(
                    f"{found.architecture} is made with random weights, so that it is another network each time: give "
                    "its trained ones by --weights FILE, or load them where it is made"
                )
    if weights is not None:
        load_weights_file(model.get_submodule("1"), weights)
    count = count_classes(model, image, found.classes if found.classes is not None else classes)
    source = (
        f"{found.architecture} itself"
        if weights is None
        else f"{weights.name}, SHA-256 {file_sha256(weights)}"
    )
    names = found.class_names if len(found.class_names) == count else ()
    return Brought(model.eval(), found.architecture, found.options, text, count, names, source)


def same_states(model: nn.Module, other: nn.Module) -> bool:
    """Whether two networks have the same weights and buffers, bit for bit."""
    mine, others = model.state_dict(), other.state_dict()
    return mine.keys() == others.keys() and all(
        not isinstance(mine[name], Tensor) or torch.equal(mine[name], others[name]) for name in mine
    )


def fitting_normalisation(found: Found, image: Tensor, stated: str | None = None) -> str:
    """The normalisation that is stated, or else the network's, with its size where images like this have another."""
    if found.form.size not in (None, tuple(image.shape[1:])):
        said = found.form if stated is None else input_form(stated)
        return replace(said, size=said.size or found.form.size).text()
    return replace(found.form, size=None).text() if stated is None else stated


def _own_count(architecture: str) -> int | None:
    """Without labels, the number of classes that a network of yours has unless told otherwise.

    None: it takes no such number, so its answers tell.
    """
    factory = own_network(architecture) if is_code(architecture) else None
    if factory is not None and classes_argument(factory) is None:
        return None
    if factory is None or (known := default_classes(factory)) is None:
        raise ConfigError(
            f"the model {architecture} takes the number of classes, and the data has no labels to count them by: "
            "give classes"
        )
    return known
