"""From `--device` to the device that a process computes on."""

from __future__ import annotations

import torch

from smoothcert.errors import ConfigError


def pick_device(name: str = "auto", local_rank: int = 0) -> torch.device:
    """`auto` is this process's CUDA device where there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, found {name!r}") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(
                f"device {name} was asked for, but this PyTorch sees no CUDA device: use the device cpu"
            )
        device = torch.device("cuda", device.index if device.index is not None else local_rank)
        if device.index >= torch.cuda.device_count():
            raise ConfigError(
                f"device {device} was asked for, found {torch.cuda.device_count()} CUDA device(s)"
            )
        torch.cuda.set_device(device)
    elif (
        device.type != "cpu"
    ):  # MPS among them: certification noise and its arithmetic are tested on CPU and CUDA only
        raise ConfigError(
            f"device must be auto, cpu, cuda or cuda:N, found {name!r}: use the device cpu on this machine"
        )
    return device
