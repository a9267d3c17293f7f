"""When memory runs out: how PyTorch says so, and the smallest batch below which nothing can be done about it."""

from __future__ import annotations

import torch

SMALLEST = 32
NO_MEMORY = (
    f"out of memory with {SMALLEST} noisy copies at a time, the fewest that are sent at once: use a device with more "
    "memory, or free some"
)


def is_out_of_memory(error: RuntimeError) -> bool:
    """True for CUDA's, its libraries' and the CPU allocator's ways of saying so."""
    said = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in said)
