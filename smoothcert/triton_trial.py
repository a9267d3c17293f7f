"""A kernel that shows whether Triton works on a GPU: it needs a C compiler there, which slim machines lack."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def one(out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    tl.store(out, 1.0)


def launch(device: torch.device) -> None:
    """Raises whatever goes wrong."""
    out = torch.zeros(1, device=device)
    with torch.cuda.device(device):
        one[(1,)](out)
    if float(out) != 1.0:
        raise RuntimeError("a kernel that writes 1 wrote something else")
