"""A kernel that does not compile, as one would not that needs another GPU."""

import triton
import triton.language as tl


@triton.jit
def kernel(x):
    tl.static_assert(False, "this GPU is too old")
