"""The host's side of vote_kernels.py: rows of several requests in one batch, and their votes, all on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
from torch import Tensor

from smoothcert.certification.vote_kernels import ROWS, count_votes, rows_of_batch


class Rows:
    """The samples `first` to `last` - 1 of several requests, one request after the other."""

    def __init__(self, spans: Sequence[tuple[int, int]], device: torch.device) -> None:
        first, last = np.array(spans, dtype=np.int64).reshape(-1, 2).T
        ends = np.cumsum(last - first)
        skip = first - (ends - (last - first))
        self.total = int(ends[-1]) if len(ends) else 0
        self._ends, self._skip = (torch.from_numpy(column).to(device) for column in (ends, skip))
        self._steps = len(spans).bit_length()

    def batch(self, start: int, size: int) -> tuple[Tensor, Tensor]:
        """(request, sample) of rows start to start + size - 1, int32 (the bits of a uint32)."""
        # not halves of one tensor: Triton compiles again for one that does not begin at 16 bytes
        owner, sample = (
            torch.empty(size, dtype=torch.int32, device=self._ends.device) for _ in range(2)
        )
        rows_of_batch[(triton.cdiv(size, ROWS),)](
            self._ends,
            self._skip,
            owner,
            sample,
            start,
            size,
            len(self._ends),
            STEPS=self._steps,
            ROWS=ROWS,
        )
        return owner, sample


def add_votes(logits: Tensor, owner: Tensor, counts: Tensor, nan: Tensor) -> None:
    """Adds each row's class to its request's row of `counts` [requests, classes], and rows with NaN to `nan`."""
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    rows, classes = logits.shape
    columns = triton.next_power_of_2(classes)
    block = max(1, min(ROWS, 2**14 // columns))
    count_votes[(triton.cdiv(rows, block),)](
        logits,
        owner,
        counts,
        nan,
        rows,
        logits.stride(0),
        CLASSES=classes,
        COLUMNS=columns,
        ROWS=block,
    )
