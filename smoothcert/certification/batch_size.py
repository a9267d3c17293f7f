"""How many noisy copies to send through the network at once: measured, because no rule fits LeNet and ResNet-50."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from smoothcert.devices.memory import is_out_of_memory

_LARGEST_ON_CPU, _LARGEST_ON_CUDA = 512, 2**14
_CUDA_VALUES = 2**27  # of images in a batch: 512 of ImageNet
_PROBE_SECONDS = 0.05


@torch.inference_mode()
def choose_batch_size(
    forward: Callable[[Tensor], Tensor], inputs: Callable[[int], Tensor], device: torch.device
) -> int:
    """The power of two from 32 up with the highest rate; stops where growing no longer helps or memory ends.

    On CUDA the size of the images decides, not the rate: batch sizes select kernels that round differently, so every
    process should choose the same one. A batch of that size is enough work for any GPU.
    """
    if device.type == "cuda":
        values = inputs(1).numel()
        return max(32, min(_LARGEST_ON_CUDA, 1 << (_CUDA_VALUES // values).bit_length() - 1))
    best, best_rate, size = 32, 0.0, 32
    while size <= _LARGEST_ON_CPU:
        try:
            rate = _rate(forward, inputs(size))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            break
        if rate > best_rate:
            best, best_rate = size, rate
        elif size >= 4 * best:  # two doublings without gain
            break
        size *= 2
    return best


def _rate(forward: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Inputs per second, after one untimed run that pays for first-use costs."""
    forward(x)
    runs, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < _PROBE_SECONDS or runs == 0:
        forward(x)
        runs += 1
    return runs * len(x) / seconds
