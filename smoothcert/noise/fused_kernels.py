"""Keyed noise, integer addition, clipping, scaling and cast in one Triton kernel.

A launch fills rows of a batch that may belong to several images. Row b is sample `sample[b]` of request `request[b]`;
a request is an image with its Philox counter words and key. Words come from Philox4x32-10 at the counter

    exact:      (pair of coordinates, sample, input index, stage), as exact.py lays it out, bit for bit
    quantised:  (four coordinates, sample, input index, stage), under another key; each pair of words gives two
                Gaussians by Box and Muller's transform in float32, and 255 sigma z is rounded to an integer

Everything after the integer sum is a function of that sum alone.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl

# One program draws this many groups of two (exact) or four (quantised) values.
GROUPS = 256


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
def two_gaussians(w0, w1):
    """Box and Muller: u in (0, 1), so the radius is finite, and at most 6.8."""
    u = (w0.to(tl.float32) + 0.5) * 2.3283064365386963e-10
    angle = w1.to(tl.float32) * 1.4629180792671596e-09  # 2 pi / 2^32
    radius = tl.sqrt(tl.maximum(-2.0 * tl.log(u), 0.0))
    return radius * tl.cos(angle), radius * tl.sin(angle)


@triton.jit
def count_thresholds(u, thresholds, guide, STEPS: tl.constexpr):
    """How many thresholds are <= u: `guide` knows it up to 2^STEPS - 1 from u's distance to the nearer end."""
    upper = u >= (1 << 61)
    distance = tl.where(upper, (1 << 62) - 1 - u, u)
    # a float's exponent and first seven bits; 0 for the few distances below 1
    bucket = tl.maximum((distance.to(tl.float32).to(tl.int32, bitcast=True) >> 16) - (127 << 7) + 1, 0)
    place = tl.load(guide + bucket + tl.where(upper, 64 * 128, 0)).to(tl.int32)
    for step in tl.static_range(STEPS - 1, -1, -1):
        above = tl.load(thresholds + place + ((1 << step) - 1)) <= u
        place = tl.where(above, place + (1 << step), place)
    return place


@triton.jit
def uniform62(high, low):
    return (high.to(tl.int64) << 30) | (low >> 2).to(tl.int64)


@triton.jit
def noisy_value(steps, pixel, OFFSET: tl.constexpr, left, low, high):
    """Pixel OFFSET of a group plus `steps` of noise, clipped, in units of the [0,1] image."""
    level = tl.load(pixel + OFFSET, mask=left > OFFSET, other=0).to(tl.float32) + steps
    # integers below 2^24 are exact in float32; a true division, as the CPU divides
    return tl.div_rn(tl.minimum(tl.maximum(level, low), high), tl.full(level.shape, 255.0, tl.float32))


@triton.jit(do_not_specialize=["rows"])  # one kernel for all sizes of the last batch
def noisy_rows(
    out,
    image,  # [requests, VALUES] uint8
    word,  # [requests, 4] int32: input index, stage, key
    request,  # [rows] int32
    sample,  # [rows] int32
    thresholds,
    guide,
    rows,
    scale,  # 255 sigma
    low,
    high,
    row_stride,
    VALUES: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_STRIDE: tl.constexpr,
    LINE_STRIDE: tl.constexpr,
    PIXEL_STRIDE: tl.constexpr,
    FLAT: tl.constexpr,  # rows follow each other without gaps, in the order of the values
    EXACT: tl.constexpr,
    STEPS: tl.constexpr,
    GROUPS: tl.constexpr,
):
    PER_GROUP: tl.constexpr = 2 if EXACT else 4
    PER_ROW: tl.constexpr = (VALUES + PER_GROUP - 1) // PER_GROUP
    # only here in 64 bits, whose divisions are slow
    start = tl.program_id(0).to(tl.int64) * GROUPS
    first_row = start // PER_ROW
    skipped = (start - first_row * PER_ROW).to(tl.int32)
    group = skipped + tl.arange(0, GROUPS)
    row, place = first_row.to(tl.int32) + group // PER_ROW, group % PER_ROW
    inside = row < rows
    owner = tl.load(request + row, mask=inside, other=0)
    c1 = tl.load(sample + row, mask=inside, other=0).to(tl.uint32, bitcast=True)
    c2 = tl.load(word + 4 * owner).to(tl.uint32, bitcast=True)
    c3 = tl.load(word + 4 * owner + 1).to(tl.uint32, bitcast=True)
    k0 = tl.load(word + 4 * owner + 2).to(tl.uint32, bitcast=True)
    k1 = tl.load(word + 4 * owner + 3).to(tl.uint32, bitcast=True)
    w0, w1, w2, w3 = philox(place.to(tl.uint32), c1, c2, c3, k0, k1)
    pixel = image + owner.to(tl.int64) * VALUES + place * PER_GROUP
    left = tl.where(inside, VALUES - place * PER_GROUP, 0)  # values from here to the end of the row
    if EXACT:
        # high is 255 (reach + 1) = M
        first = count_thresholds(uniform62(w0, w1), thresholds, guide, STEPS).to(tl.float32) - high
        second = count_thresholds(uniform62(w2, w3), thresholds, guide, STEPS).to(tl.float32) - high
        unit = tl.interleave(
            noisy_value(first, pixel, 0, left, low, high), noisy_value(second, pixel, 1, left, low, high)
        )
    else:
        z0, z1 = two_gaussians(w0, w1)
        z2, z3 = two_gaussians(w2, w3)
        v0 = noisy_value(tl.floor(z0 * scale + 0.5), pixel, 0, left, low, high)
        v1 = noisy_value(tl.floor(z1 * scale + 0.5), pixel, 1, left, low, high)
        v2 = noisy_value(tl.floor(z2 * scale + 0.5), pixel, 2, left, low, high)
        v3 = noisy_value(tl.floor(z3 * scale + 0.5), pixel, 3, left, low, high)
        unit = tl.interleave(tl.interleave(v0, v2), tl.interleave(v1, v3))
    if FLAT:
        at = start * PER_GROUP + tl.arange(0, GROUPS * PER_GROUP)
        there = at < rows.to(tl.int64) * VALUES
    else:
        value = skipped * PER_GROUP + tl.arange(0, GROUPS * PER_GROUP)
        row, place = first_row.to(tl.int32) + value // (PER_ROW * PER_GROUP), value % (PER_ROW * PER_GROUP)
        channel, line = place // (HEIGHT * WIDTH), place // WIDTH % HEIGHT
        at = row.to(tl.int64) * row_stride + (
            channel * CHANNEL_STRIDE + line * LINE_STRIDE + place % WIDTH * PIXEL_STRIDE
        )
        there = (row < rows) & (place < VALUES)
    tl.store(out + at, unit.to(out.dtype.element_ty), mask=there)
