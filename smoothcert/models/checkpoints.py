"""Published checkpoints: the torch files of Cohen, SmoothAdv, MACER, Consistency, SmoothMix and CAT-RS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from smoothcert.errors import ConfigError, ModelError
from smoothcert.models.build import build_model, is_built_in
from smoothcert.models.state_files import load_fitting, read_checkpoint, without_prefixes, wrapping


def load_published(
    path: str | Path,
    *,
    arch: str | None = None,
    classes: int | None = None,
    normalisation: str | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
    """The model of a published checkpoint, in eval mode, and what is known of it.

    The second value holds `arch`, `classes` and `normalisation` as `build_model` takes them, and under
    `checkpoint` the plain values of the file (epoch, ...). What is not given is taken from the file. No file
    says how its images were normalised; the default is what the authors' code does: nothing for LeNet and
    MACER, full standardisation for the others. The models that SmoothAdv released subtract the mean only:
    give "cifar10-mean" or "imagenet-mean".

    Nothing in the file is run: it is read as tensors and plain values, and the name it gives its network can
    only be that of one in this package.

    >>> import torch
    >>> from smoothcert import build_model, load_published
    >>> states = build_model("lenet", seed=0).state_dict()
    >>> torch.save({"arch": "lenet", "epoch": 90, "state_dict": states}, "checkpoint.pth.tar")
    >>> model, about = load_published("checkpoint.pth.tar")
    >>> about["arch"], about["classes"], about["checkpoint"]
    ('lenet', 10, {'arch': 'lenet', 'epoch': 90})
    """
    checkpoint = read_checkpoint(Path(path))
    weights = wrapping(checkpoint)
    states = without_prefixes(checkpoint[weights] if weights else checkpoint, path)
    arch = _our_name(arch) if arch is not None else _named_in(checkpoint, path)
    classes = _count_classes(states[-1], arch, classes, path)
    if normalisation is None:
        normalisation = "none" if weights == "net" else _default_normalisation(arch, classes, path)

    model = build_model(arch, classes, normalisation)
    net = model.get_submodule("1")
    load_fitting(net, states, path)
    known = {"arch": arch, "classes": classes, "normalisation": normalisation}
    return model.eval(), {**known, "checkpoint": _plain_values(checkpoint)}


def _our_name(arch: str) -> str:
    """The field writes ``cifar_resnet110`` and ``LeNet``."""
    short = arch.lower().removeprefix("cifar_")
    return short if is_built_in(short) else arch


def _named_in(checkpoint: dict[str, Any], path: str | Path) -> str:
    arch = checkpoint.get("arch")
    name = _our_name(arch) if isinstance(arch, str) else ""
    if not is_built_in(name):  # never a dotted path: the file would choose what is imported
        raise ModelError(
            f"{path}: expected the file to name lenet, cifar_resnet<6n+2> or resnet50 as its 'arch', "
            f"found {arch!r}: give arch=..."
        )
    return name


def _count_classes(state: dict[str, Tensor], arch: str, given: int | None, path: str | Path) -> int:
    head = state.get("fc2.weight" if arch == "lenet" else "fc.weight")
    if head is not None and head.ndim == 2:
        found = head.shape[0]
        if given not in (None, found):
            raise ModelError(
                f"{path} has {found} classes, but classes={given} was asked for: leave it out"
            )
        return found
    if given is not None:
        return given
    if is_built_in(arch):
        return 10  # any number: without its last layer the file is refused later, with the names of its tensors
    raise ModelError(f"{path} has no layer 'fc' to count the classes of: give classes=...")


def _default_normalisation(arch: str, classes: int, path: str | Path) -> str:
    if arch in ("lenet", "resnet50"):
        return "none" if arch == "lenet" else "imagenet"
    # 1000 classes on a CIFAR network: SmoothAdv's pre-training on ImageNet32, standardised as CIFAR-10
    known = {10: "cifar10", 100: "cifar100", 1000: "cifar10"}
    if not is_built_in(arch) or classes not in known:
        raise ConfigError(
            f"{path}: no default normalisation for {arch} with {classes} classes: give normalisation=..."
        )
    return known[classes]


def _plain_values(checkpoint: dict[str, Any]) -> dict[str, bool | int | float | str]:
    values = {key: v.item() if isinstance(v, np.generic) else v for key, v in checkpoint.items()}
    return {key: v for key, v in values.items() if isinstance(v, bool | int | float | str)}
