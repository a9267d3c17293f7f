"""The smallest kernel, for launching.py."""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def one(out):
    tl.store(out, 1.0)
