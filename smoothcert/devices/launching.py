"""Whether kernels written in Triton run on a device, whether they may, and on which one they are launched."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache

import torch

from smoothcert.config import Kernels
from smoothcert.devices.memory import is_out_of_memory
from smoothcert.imports import has_triton

_log = logging.getLogger("smoothcert")
_switched_off: ContextVar[bool] = ContextVar("kernels switched off", default=False)


def may_launch(device: torch.device) -> bool:
    """Whether kernels that PyTorch could do without run there, and were not switched off."""
    return not _switched_off.get() and runs_triton(device)


@contextmanager
def kernels_switched(kernels: Kernels) -> Iterator[None]:
    """With "off", what `may_launch` guards is computed by PyTorch alone, in this thread, until the context ends.

    Noise is not among it: its kernels decide which numbers are drawn, and other numbers would be another experiment.
    """
    before = _switched_off.set(kernels == "off")
    try:
        yield
    finally:
        _switched_off.reset(before)


def launch_on(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current device, wherever the tensors are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def has_tf32(device: torch.device) -> bool:
    """Whether tensor cores multiply TF32 and bfloat16: NVIDIA's do from Ampere on."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


@cache
def runs_triton(device: torch.device) -> bool:
    """Whether kernels run there; if they should and do not, why is logged once."""
    if device.type != "cuda" or not has_triton():
        return False
    try:
        _try_one(device)
    except Exception as error:  # a compiler may fail in any way
        if isinstance(error, RuntimeError) and is_out_of_memory(
            error
        ):  # says nothing of Triton, and is not remembered
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        _log.warning(
            "Triton is installed but runs no kernel on %s (%s): PyTorch's own are used, which are slower. Usually a C "
            "compiler is missing.",
            device,
            reason,
        )
        return False
    return True


def _try_one(device: torch.device) -> None:
    """Triton needs a C compiler, which slim machines lack: launching shows it."""
    from smoothcert.devices.trial_kernels import one

    out = torch.zeros(1, device=device)
    with launch_on(device):
        one[(1,)](out)
    if float(out) != 1.0:
        raise RuntimeError("a kernel that writes 1 wrote something else")
