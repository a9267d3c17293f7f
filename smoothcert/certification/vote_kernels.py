"""Which rows a batch has, and what the network answered on them: two small kernels where PyTorch would take fifteen."""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl

ROWS = 256


@triton.jit(do_not_specialize=["start", "rows", "requests"])
def rows_of_batch(
    ends, skip, owner, sample, start, rows, requests, STEPS: tl.constexpr, ROWS: tl.constexpr
):
    """Row b of a batch is row start + b of all requests one after the other: which request, and which sample of it.

    `ends` [requests] int64 is where each request's rows end; fewer than 2^STEPS requests. Sample = row + `skip`.
    """
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = start + b.to(tl.int64)
    place = tl.zeros([ROWS], tl.int32)
    for step in tl.static_range(STEPS - 1, -1, -1):
        at = place + ((1 << step) - 1)
        ended = tl.load(ends + at, mask=at < requests, other=9223372036854775807) <= row
        place = tl.where(ended, place + (1 << step), place)
    inside = b < rows
    tl.store(owner + b, place, mask=inside)
    tl.store(
        sample + b, (row + tl.load(skip + place, mask=inside, other=0)).to(tl.int32), mask=inside
    )


@triton.jit(do_not_specialize=["rows", "stride"])
def count_votes(
    logits,  # [rows, classes], the classes next to each other
    owner,  # [rows] int32
    counts,  # [requests, classes] int64
    nan,  # [1] int64
    rows,
    stride,  # from one row of logits to the next
    CLASSES: tl.constexpr,
    COLUMNS: tl.constexpr,  # the power of two from CLASSES on
    ROWS: tl.constexpr,
):
    """The first of the largest logits is the answer, as argmax has it; rows with NaN are counted apart as well."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = b < rows
    c = tl.arange(0, COLUMNS)
    real = inside[:, None] & (c < CLASSES)[None, :]
    value = tl.load(
        logits + b[:, None].to(tl.int64) * stride + c[None, :], mask=real, other=float("-inf")
    )
    broken = tl.max((value != value).to(tl.int32), axis=1)
    tl.atomic_add(nan, tl.sum(broken, axis=0).to(tl.int64))
    best = tl.argmax(tl.where(value != value, float("-inf"), value), axis=1, tie_break_left=True)
    request = tl.load(owner + b, mask=inside, other=0)
    first, last = (
        tl.min(tl.where(inside, request, 2147483647)),
        tl.max(tl.where(inside, request, -1)),
    )
    if first == last:  # nearly always: add up here, or thousands of rows would queue for one number
        votes = tl.sum(((best[:, None] == c[None, :]) & inside[:, None]).to(tl.int32), axis=0).to(
            tl.int64
        )
        tl.atomic_add(
            counts + first.to(tl.int64) * CLASSES + c, votes, mask=(c < CLASSES) & (votes > 0)
        )
    else:
        tl.atomic_add(
            counts + request.to(tl.int64) * CLASSES + best,
            tl.full([ROWS], 1, tl.int64),
            mask=inside,
        )
