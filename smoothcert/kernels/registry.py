"""The networks that have kernels of their own, and the one place where it is decided whether these are used.

To add a network: a folder beside `lenet` with an entry, and its name in `KERNELS`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx, nn

from smoothcert.config import Kernels, check_choice
from smoothcert.devices.launching import runs_triton
from smoothcert.errors import ModelError
from smoothcert.kernels.cifar_resnet.entry import CIFAR_RESNET
from smoothcert.kernels.entry import Entry, Sampler, Shape
from smoothcert.kernels.lenet.entry import LENET

KERNELS: tuple[Entry, ...] = (LENET, CIFAR_RESNET)

LAYER_KERNELS = "layer kernels"
"""As manifests name layers/ in sampling: gets a number when other bits come out."""

_SAMPLING = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_TRAINING = {"tf32": torch.float32, "bfloat16": torch.bfloat16}


class NoKernels(ModelError):
    """PyTorch's kernels have to do: the message says why."""


def sampling_kernels(
    model: nn.Module, shape: Shape, device: torch.device, precision: str, kernels: Kernels
) -> tuple[str, Sampler]:
    """The title of the kernels made for a network in eval mode, and the network that answers by them."""
    entry = _entry(model, device, precision, _SAMPLING, kernels)
    _raise_if(entry, entry.why_not_sampling(model, shape))
    return entry.title, entry.sampling(model, shape, device, _SAMPLING[precision])


def training_kernels(
    model: nn.Module, device: torch.device, precision: str, kernels: Kernels
) -> tuple[str, nn.Module]:
    """The title of the kernels made for a network, and a module that trains its parameters by them."""
    entry = _entry(model, device, precision, _TRAINING, kernels)
    _raise_if(entry, entry.why_not_training(model))
    return entry.title, entry.training(model, _TRAINING[precision])


def layer_kernels_run(device: torch.device, precision: str, kernels: Kernels) -> bool:
    """Whether single layers of any network may be kernels there."""
    return kernels != "off" and precision in _SAMPLING and runs_triton(device)


def put_layer_kernels(net: fx.GraphModule) -> int:
    """How many layers of a folded network, which is changed in place, are kernels now."""
    from smoothcert.kernels.layers.replacing import with_layer_kernels  # imports Triton

    return with_layer_kernels(net)


def _entry(
    model: nn.Module,
    device: torch.device,
    precision: str,
    known: Mapping[str, torch.dtype],
    kernels: Kernels,
) -> Entry:
    """The entry of a network, if kernels run at all."""
    check_choice("setting of kernels", kernels, Kernels)
    if kernels == "off":
        raise NoKernels("no kernels: switched off by kernels: off")
    if not runs_triton(device):
        raise NoKernels(f"no kernels: Triton does not run on {device.type}")
    if precision not in known:
        raise NoKernels(f"no kernels in {precision}: they compute in {' or '.join(known)}")
    for entry in KERNELS:
        if any(isinstance(module, entry.network) for module in model.modules()):
            return entry
    raise NoKernels(
        f"no kernels: made for {' and '.join(entry.name for entry in KERNELS)}, found another network"
    )


def _raise_if(entry: Entry, reason: str | None) -> None:
    if reason is not None:
        raise NoKernels(f"no {entry.name} kernels: {reason}")
