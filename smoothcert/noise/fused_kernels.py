"""Keyed noise, integer addition, clipping, scaling and cast in one Triton kernel.

A launch fills rows of a batch that may belong to several images. Row b is sample `sample[b]` of request `request[b]`;
a request is an image with its Philox counter words. Words and integers are those of exact.py, bit for bit:
first words w of Philox4x32-10 at (group of four coordinates, sample, place), and second words only in a
program in which some w is the upper half of a threshold.

Everything after the integer sum is a function of that sum alone.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl

# One program draws this many groups of four values.
GROUPS = 128


@triton.jit
def philox(c0, c1, c2, c3, k0, k1):
    """Ten rounds on uint32 counters and keys; the same words as smoothcert.noise.philox."""
    for _ in tl.static_range(10):
        a, b = c0, c2
        c0 = tl.umulhi(b, 0xCD9E8D57) ^ c1 ^ k0
        c2 = tl.umulhi(a, 0xD2511F53) ^ c3 ^ k1
        c1 = b * 0xCD9E8D57
        c3 = a * 0xD2511F53
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def in_order(v0, v1, v2, v3):
    """The four values of each group one after the other."""
    return tl.interleave(tl.interleave(v0, v2), tl.interleave(v1, v3))


@triton.jit
def count_below(w, upper, guide, BITS: tl.constexpr, STEPS: tl.constexpr):
    """How many of `upper`, the thresholds' upper words, are < w, and whether one equals w.

    `guide` knows it up to 2^STEPS - 1 from the exponent and first BITS bits of w's distance to the nearer end.
    """
    far = w >= 0x80000000
    # not ~w, which the interpreters of Triton 3.6 and 3.7 cannot say of unsigned integers
    distance = tl.where(far, w ^ 0xFFFFFFFF, w).to(tl.float32)
    bucket = tl.maximum((distance.to(tl.int32, bitcast=True) >> (23 - BITS)) - (127 << BITS) + 1, 0)
    place = tl.load(guide + bucket + tl.where(far, 32 << BITS, 0))
    tied = place < 0
    for step in tl.static_range(STEPS - 1, -1, -1):
        threshold = tl.load(upper + place + ((1 << step) - 1)).to(tl.uint32, bitcast=True)
        place = tl.where(threshold < w, place + (1 << step), place)
        tied = tied | (threshold == w)
    return place, tied


@triton.jit
def count_all(w, second, thresholds, SEARCH: tl.constexpr):
    """How many thresholds are <= u, which both words make."""
    u = (w.to(tl.int64) << 30) | (second >> 2).to(tl.int64)
    place, size = tl.zeros(w.shape, tl.int32), 1 << (SEARCH - 1)
    for _ in range(SEARCH):
        place = tl.where(tl.load(thresholds + place + (size - 1)) <= u, place + size, place)
        size = size // 2
    return place


@triton.jit(
    do_not_specialize=["rows", "k0", "k1"]
)  # one kernel for all sizes of the last batch, and all seeds
def noisy_rows(
    out,
    image,  # [requests, VALUES] uint8
    word,  # [requests, 2] int32: the place (exact.py)
    request,  # [rows] int32
    sample,  # [rows] int32
    thresholds,  # int64, with room to search past their end
    upper,  # int32: the upper words of the same
    guide,
    rows,
    shift,  # noise is the number of thresholds, minus this
    low,
    high,
    row_stride,
    k0,  # int32: the key
    k1,
    VALUES: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_STRIDE: tl.constexpr,
    LINE_STRIDE: tl.constexpr,
    PIXEL_STRIDE: tl.constexpr,
    FLAT: tl.constexpr,  # rows follow each other without gaps, in the order of the values
    BITS: tl.constexpr,
    STEPS: tl.constexpr,
    SEARCH: tl.constexpr,
    GROUPS: tl.constexpr,
):
    PER_ROW: tl.constexpr = (VALUES + 3) // 4
    # only here in 64 bits, whose divisions are slow
    start = tl.program_id(0).to(tl.int64) * GROUPS
    first_row = start // PER_ROW
    skipped = (start - first_row * PER_ROW).to(tl.int32)
    group = skipped + tl.arange(0, GROUPS)
    row, place = first_row.to(tl.int32) + group // PER_ROW, group % PER_ROW
    owner = tl.load(request + row, mask=row < rows, other=0)
    c0 = place.to(tl.uint32)
    c1 = tl.load(sample + row, mask=row < rows, other=0).to(tl.uint32, bitcast=True)
    c2 = tl.load(word + 2 * owner).to(tl.uint32, bitcast=True)
    c3 = tl.load(word + 2 * owner + 1).to(tl.uint32, bitcast=True)
    k0, k1 = k0.to(tl.uint32, bitcast=True), k1.to(tl.uint32, bitcast=True)
    w0, w1, w2, w3 = philox(c0, c1, c2, c3, k0, k1)
    w = in_order(w0, w1, w2, w3)
    count, tied = count_below(w, upper, guide, BITS, STEPS)
    if tl.max(tied.to(tl.int32), axis=0) > 0:
        w0, w1, w2, w3 = philox(c0, c1, c2, c3 + 0x80000000, k0, k1)
        count = tl.where(tied, count_all(w, in_order(w0, w1, w2, w3), thresholds, SEARCH), count)
    value = skipped * 4 + tl.arange(0, 4 * GROUPS)
    row, place = first_row.to(tl.int32) + value // (4 * PER_ROW), value % (4 * PER_ROW)
    there = (row < rows) & (place < VALUES)
    owner = tl.load(request + row, mask=there, other=0)
    level = tl.load(image + owner.to(tl.int64) * VALUES + place, mask=there, other=0).to(tl.float32)
    # integers below 2^24 are exact in float32; a true division, as the CPU divides
    level = tl.minimum(tl.maximum(level + (count.to(tl.float32) - shift), low), high)
    unit = tl.div_rn(level, tl.full(level.shape, 255.0, tl.float32))
    if FLAT:
        at = 4 * start + tl.arange(0, 4 * GROUPS)
    else:
        channel, line = place // (HEIGHT * WIDTH), place // WIDTH % HEIGHT
        at = row.to(tl.int64) * row_stride + (
            channel * CHANNEL_STRIDE + line * LINE_STRIDE + place % WIDTH * PIXEL_STRIDE
        )
    tl.store(out + at, unit.to(out.dtype.element_ty), mask=there)
