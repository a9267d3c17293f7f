"""The network that training steps are taken with: the same parameters, laid out and multiplied for a GPU."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import NamedTuple

import torch
from torch import nn

from smoothcert.config import Kernels, TrainingPrecision
from smoothcert.devices.launching import kernels_switched
from smoothcert.devices.memory import is_out_of_memory
from smoothcert.devices.products import float32_products
from smoothcert.errors import ConfigError
from smoothcert.kernels.generic.training import for_training
from smoothcert.kernels.registry import NoKernels, training_kernels

_log = logging.getLogger("smoothcert")


class Trainable(NamedTuple):
    """What to train with, and what was done for it."""

    network: nn.Module  # the model itself, or a module that shares its parameters
    kernels: str | None  # the title of those that it computes with, if any
    reasons: tuple[str, ...]  # why there are none


def trainable(
    model: nn.Module,
    shape: tuple[int, ...],
    device: torch.device,
    precision: TrainingPrecision,
    kernels: Kernels = "auto",
) -> Trainable:
    """`model`, which is on `device`, made ready to train fast. On the CPU, and with float32, nothing is changed.

    Networks that have kernels of their own train by them, once these have taken steps on a copy. Others are put into
    channels-last layout; with bfloat16 their layers run under autocast. Parameters, losses and optimiser stay in
    float32.
    """
    try:
        title, network = training_kernels(model, device, precision, kernels)
        _try_out(training_kernels(deepcopy(model), device, precision, kernels)[1], shape, device)
        return Trainable(network, title, ())
    except NoKernels as error:
        reason = str(error)
    except Exception as error:  # a compiler may fail in any way
        if isinstance(error, ConfigError) or (
            isinstance(error, RuntimeError) and is_out_of_memory(error)
        ):
            raise  # they say nothing of the kernels
        reason = f"no kernels: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    _log.info("training by PyTorch alone: %s", reason)
    plain = device.type != "cuda" or precision == "float32"
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    return Trainable(model if plain else for_training(model, dtype), None, (reason,))


def _try_out(network: nn.Module, shape: tuple[int, ...], device: torch.device) -> None:
    """A training step and one of an attack, since kernels are compiled when they are first launched."""
    images = torch.zeros((16, *shape), device=device)
    network.train()(images).sum().backward()
    network.eval().requires_grad_(False)(images.requires_grad_()).sum().backward()


@contextmanager
def products(
    device: torch.device, precision: TrainingPrecision, kernels: Kernels = "auto"
) -> Iterator[None]:
    """TF32 unless float32 was asked for, and the fastest convolutions: on CUDA, training is not repeated to the bit.

    With kernels "off" attack steps are PyTorch's too, so that no kernel of ours takes part in training.
    """
    tf32 = precision != "float32" and device.type == "cuda"
    flags = {"enabled": True, "benchmark": tf32, "deterministic": False, "allow_tf32": tf32}
    with float32_products(tf32), torch.backends.cudnn.flags(**flags), kernels_switched(kernels):
        yield
