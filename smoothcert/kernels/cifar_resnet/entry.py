"""When the kernels of the CIFAR ResNets can stand for a network. Triton is imported when they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from smoothcert.devices.launching import has_tf32
from smoothcert.kernels.entry import Entry, Shape
from smoothcert.kernels.fits import outputs, why_not_built_as, why_not_float32
from smoothcert.kernels.generic.training import for_training
from smoothcert.models.cifar_resnet import CifarResNet

if TYPE_CHECKING:
    from smoothcert.kernels.cifar_resnet.sampling import FastResNet
    from smoothcert.kernels.cifar_resnet.training import FastResNetTraining

_CLASSES = 1024  # at most


def why_not_sampling(model: nn.Module, shape: Shape) -> str | None:
    if (reason := _why_not_cifar_resnet(model)) is not None:
        return reason
    if len(shape) != 3 or shape[0] != 3 or shape[1] % 4 or shape[2] % 4:
        return f"made for images [3, H, W] with sides divisible by 4, found {list(shape)}"
    if any(module.training for module in model.modules()):
        return "made for eval mode, found training mode"
    classes = _net(model).fc.out_features
    return f"made for at most {_CLASSES} classes, found {classes}" if classes > _CLASSES else None


def sampling(
    model: nn.Module, shape: Shape, device: torch.device, dtype: torch.dtype
) -> FastResNet:
    from smoothcert.kernels.cifar_resnet.sampling import FastResNet

    return FastResNet(model, dtype, device, (shape[1], shape[2]))


def why_not_training(model: nn.Module) -> str | None:
    if (reason := _why_not_cifar_resnet(model) or why_not_float32(model)) is not None:
        return reason
    device = _net(model).fc.weight.device
    if device.type == "cuda" and not has_tf32(device):
        return "made for tensor cores that multiply TF32 and bfloat16, which NVIDIA's GPUs have from Ampere on"
    return None


def training(model: nn.Module, dtype: torch.dtype) -> FastResNetTraining:
    from smoothcert.kernels.cifar_resnet.training import FastResNetTraining

    return FastResNetTraining(model, for_training(model, dtype), dtype)


def _net(model: nn.Module) -> CifarResNet:
    return cast(tuple[nn.Module, CifarResNet], model)[1]


def _why_not_cifar_resnet(model: nn.Module) -> str | None:
    return why_not_built_as(
        model,
        CifarResNet,
        "CIFAR ResNet",
        lambda net: CifarResNet(6 * len(net.layer1) + 2, outputs(net.fc)),
    )


CIFAR_RESNET = Entry(
    "ResNet", 1, CifarResNet, why_not_sampling, sampling, why_not_training, training
)
