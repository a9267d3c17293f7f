"""When LeNet's kernels can stand for a network. Triton is imported when they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from smoothcert.kernels.entry import Entry, Shape
from smoothcert.kernels.fits import outputs, why_not_built_as, why_not_float32
from smoothcert.models.lenet import LeNet

if TYPE_CHECKING:
    from smoothcert.kernels.lenet.sampling import FastLeNet
    from smoothcert.kernels.lenet.training import FastLeNetTraining

_CLASSES = 64  # at most


def why_not_sampling(model: nn.Module, shape: Shape) -> str | None:
    if (reason := _why_not_lenet(model)) is not None:
        return reason
    if shape != (1, 28, 28):
        return f"made for images [1, 28, 28], found {list(shape)}"
    classes = cast(tuple[nn.Module, LeNet], model)[1].fc2.out_features
    return f"made for at most {_CLASSES} classes, found {classes}" if classes > _CLASSES else None


def sampling(model: nn.Module, shape: Shape, device: torch.device, dtype: torch.dtype) -> FastLeNet:
    from smoothcert.kernels.lenet.sampling import FastLeNet

    return FastLeNet(model, dtype, device)


def why_not_training(model: nn.Module) -> str | None:
    return _why_not_lenet(model) or why_not_float32(model)


def training(model: nn.Module, dtype: torch.dtype) -> FastLeNetTraining:
    """In TF32, with bfloat16 too: its layers are too small to gain by that."""
    from smoothcert.kernels.lenet.training import FastLeNetTraining

    return FastLeNetTraining(model)


def _why_not_lenet(model: nn.Module) -> str | None:
    return why_not_built_as(model, LeNet, "LeNet", lambda net: LeNet(outputs(net.fc2)))


LENET = Entry("LeNet", 2, LeNet, why_not_sampling, sampling, why_not_training, training)
