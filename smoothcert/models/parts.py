"""Networks made of networks, from the descriptions of their parts in model.json.

A part is described as a whole network is, by architecture, classes, normalisation and options, and may have parts of
its own. The weights of all parts are those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from smoothcert.errors import ModelError
from smoothcert.models.denoised import Denoised
from smoothcert.models.diffusion import OneShotDiffusion
from smoothcert.models.ensemble import Ensemble

Part = Mapping[str, Any]
Build = Callable[..., nn.Module]  # build_model

_ENTRIES = {"architecture": str, "classes": int, "normalisation": str, "options": Mapping}


def composed(arch: str, build: Build) -> Callable[..., nn.Module]:
    """What makes the network of that name of its options; `build` makes the parts."""
    return partial(PARTS[arch], build)


def _build_part(build: Build, part: object, classes: int) -> nn.Module:
    if not isinstance(part, Mapping) or not all(
        isinstance(part.get(name), kind) for name, kind in _ENTRIES.items()
    ):
        raise ModelError(
            f"a part of a network is described by {', '.join(_ENTRIES)}, found {part!r}"
        )
    if part["classes"] != classes:
        kinds = [
            f"a classifier of {count} classes" if count else "a denoiser"
            for count in (classes, part["classes"])
        ]
        raise ModelError(
            f"expected {kinds[0]} as a part of the network, found {kinds[1]}, {part['architecture']}"
        )
    return build(part["architecture"], classes, part["normalisation"], **part["options"])


def _denoised(
    build: Build, classes: int, denoiser: Part, classifier: Part, size: Sequence[int] | None = None
) -> nn.Module:
    first, second = _build_part(build, denoiser, 0), _build_part(build, classifier, classes)
    return Denoised(first, second, None if size is None else (int(size[0]), int(size[1])))


def _ensemble(build: Build, classes: int, members: Sequence[Part]) -> nn.Module:
    return Ensemble([_build_part(build, member, classes) for member in members])


def _diffusion(build: Build, classes: int, unet: Part, sigma: float, **settings: Any) -> nn.Module:
    # without a first layer: what it takes is no image in [0, 1] but an x_t and its t
    network = _build_part(build, unet, classes).get_submodule("1")
    try:
        return OneShotDiffusion(network, sigma, **settings)
    except TypeError as error:
        raise ModelError(f"a diffusion model has no such settings: {error}") from error


def _diffusers(build: Build, config: Part) -> nn.Module:
    from smoothcert.models.diffusers_unet import (
        diffusers_network,
    )  # knows diffusers, and is read only for its models

    return diffusers_network(config)


PARTS: dict[str, Callable[..., nn.Module]] = {
    "denoised": _denoised,
    "ensemble": _ensemble,
    "diffusion": _diffusion,
    "diffusers": _diffusers,
}
