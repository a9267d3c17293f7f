"""Bias, addition of the shortcut and ReLU in one pass over the values, in channels-last order."""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def bias_relu(
    x, bias, shortcut, out, total, CHANNELS: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    value = tl.load(x + i, mask=inside, other=0.0).to(tl.float32) + tl.load(bias + i % CHANNELS).to(
        tl.float32
    )
    if ADD:
        value += tl.load(shortcut + i, mask=inside, other=0.0).to(tl.float32)
    value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)  # as torch does
    tl.store(out + i, value.to(out.dtype.element_ty), mask=inside)
