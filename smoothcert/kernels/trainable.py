"""The network that training steps are taken with: the same parameters, laid out and multiplied for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from smoothcert.config import TrainingPrecision
from smoothcert.devices.launching import has_tf32, runs_triton
from smoothcert.devices.products import float32_products


def trainable(model: nn.Module, device: torch.device, precision: TrainingPrecision) -> nn.Module:
    """`model` itself, or a module that shares its parameters. On the CPU, and with float32, nothing is changed.

    LeNet trains by kernels of its own, the CIFAR ResNets in great part. Other networks are put into channels-last
    layout; with bfloat16 their layers run under autocast. Parameters, losses and optimiser stay in float32.
    """
    if device.type != "cuda" or precision == "float32":
        return model
    if runs_triton(device):
        from smoothcert.kernels.lenet.training import FastLeNetTraining

        if FastLeNetTraining.misfit(model) is None:
            return FastLeNetTraining(model)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    plain = Autocast(model) if precision == "bfloat16" else model
    if runs_triton(device) and has_tf32(device):
        from smoothcert.kernels.cifar_resnet.training import FastResNetTraining

        if FastResNetTraining.misfit(model) is None:
            return FastResNetTraining(model, plain, torch.bfloat16 if precision == "bfloat16" else torch.float32)
    return plain


@contextmanager
def products(precision: TrainingPrecision) -> Iterator[None]:
    """TF32 unless float32 was asked for, and the fastest convolutions: on CUDA, training is not repeated to the bit."""
    tf32 = precision != "float32" and torch.cuda.is_available()
    flags = {"enabled": True, "benchmark": tf32, "deterministic": False, "allow_tf32": tf32}
    with float32_products(tf32), torch.backends.cudnn.flags(**flags):
        yield


class Autocast(nn.Module):
    """Layers in bfloat16 where PyTorch deems it safe; logits in float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        # no cache of cast weights: a captured graph would keep those of the step that it was captured in
        with torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False):
            logits: Tensor = self.model(x)
        return logits.float()
