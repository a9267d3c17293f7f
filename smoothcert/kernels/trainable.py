"""The network that training steps are taken with: the same parameters, laid out and multiplied for a GPU."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from smoothcert.config import Kernels, TrainingPrecision
from smoothcert.devices.launching import kernels_switched
from smoothcert.devices.products import float32_products
from smoothcert.kernels.generic.training import for_training
from smoothcert.kernels.registry import NoKernels, training_kernels

_log = logging.getLogger("smoothcert")


class Trainable(NamedTuple):
    """What to train with, and what was done for it."""

    network: nn.Module  # the model itself, or a module that shares its parameters
    kernels: str | None  # the title of those that it computes with, if any
    reasons: tuple[str, ...]  # why there are none


def trainable(
    model: nn.Module, device: torch.device, precision: TrainingPrecision, kernels: Kernels = "auto"
) -> Trainable:
    """`model`, which is on `device`, made ready to train fast. On the CPU, and with float32, nothing is changed.

    Networks that have kernels of their own train by them. Others are put into channels-last layout; with bfloat16 their
    layers run under autocast. Parameters, losses and optimiser stay in float32.
    """
    try:
        title, network = training_kernels(model, device, precision, kernels)
    except NoKernels as reason:
        _log.info("training by PyTorch alone: %s", reason)
        plain = device.type != "cuda" or precision == "float32"
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        return Trainable(model if plain else for_training(model, dtype), None, (str(reason),))
    return Trainable(network, title, ())


@contextmanager
def products(precision: TrainingPrecision, kernels: Kernels = "auto") -> Iterator[None]:
    """TF32 unless float32 was asked for, and the fastest convolutions: on CUDA, training is not repeated to the bit.

    With kernels "off" attack steps are PyTorch's too, so that no kernel of ours takes part in training.
    """
    tf32 = precision != "float32" and torch.cuda.is_available()
    flags = {"enabled": True, "benchmark": tf32, "deterministic": False, "allow_tf32": tf32}
    with float32_products(tf32), torch.backends.cudnn.flags(**flags), kernels_switched(kernels):
        yield
