"""Layers that many networks have, each with what comes before and after it in one pass over memory.

Values are [rows, WIDTH], a row being a pixel (channels-last memory) or a token. Everything is computed in float32. The
sum of two values is rounded to their type before it goes on, as if it had been stored and loaded. Rows know nothing of
each other.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def total_of(x, z, total, at, inside, ADD: tl.constexpr, KEEP: tl.constexpr):
    """x, or x + z, which is stored where something else needs it."""
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        value = (value + tl.load(z + at, mask=inside, other=0.0).to(tl.float32)).to(
            x.dtype.element_ty
        )
        if KEEP:
            tl.store(total + at, value, mask=inside)
    return value.to(tl.float32)


@triton.jit(do_not_specialize=["rows"])
def affine(
    x,
    z,
    total,
    out,
    scale,
    shift,
    rows,
    ADD: tl.constexpr,
    KEEP: tl.constexpr,
    RELU: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """scale (x + z) + shift in each column, then perhaps ReLU; one program for ROWS rows and COLUMNS columns."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at, inside = (
        row[:, None] * WIDTH + column[None, :],
        (row < rows)[:, None] & (column < WIDTH)[None, :],
    )
    value = total_of(x, z, total, at, inside, ADD, KEEP)
    value = value * tl.load(scale + column, mask=column < WIDTH, other=0.0)[None, :]
    value += tl.load(shift + column, mask=column < WIDTH, other=0.0)[None, :]
    if RELU:
        value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def layer_norm(
    x,
    z,
    total,
    out,
    scale,
    shift,
    rows,
    epsilon,
    ADD: tl.constexpr,
    KEEP: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Rows of x + z less their mean and divided by their standard deviation, then scaled and shifted in each column."""
    row, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    there = column < WIDTH
    at, inside = row[:, None] * WIDTH + column[None, :], (row < rows)[:, None] & there[None, :]
    value = total_of(x, z, total, at, inside, ADD, KEEP)
    centred = tl.where(inside, value - (tl.sum(value, axis=1) / WIDTH)[:, None], 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred, axis=1) / WIDTH + epsilon)
    value = centred / deviation[:, None] * tl.load(scale + column, mask=there, other=0.0)[None, :]
    value += tl.load(shift + column, mask=there, other=0.0)[None, :]
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["pixels"])
def max_pool(
    x,  # [images, HEIGHT, WIDTH, CHANNELS]
    out,  # [pixels, CHANNELS]
    pixels,
    CHANNELS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The largest value of each window in each channel, and nothing about where it was."""
    pixel = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = (pixel < pixels)[:, None] & (channel < CHANNELS)[None, :]
    line = pixel // OUT_WIDTH
    top, left = line % OUT_HEIGHT * STRIDE - PADDING, pixel % OUT_WIDTH * STRIDE - PADDING
    image = (line // OUT_HEIGHT).to(tl.int64) * (HEIGHT * WIDTH * CHANNELS)
    best = tl.full((ROWS, COLUMNS), float("-inf"), x.dtype.element_ty)
    for down in tl.static_range(SIZE):
        for right in tl.static_range(SIZE):
            y, w = top + down, left + right
            inside = there & ((y >= 0) & (y < HEIGHT) & (w >= 0) & (w < WIDTH))[:, None]
            at = image + (y * WIDTH + w) * CHANNELS
            value = tl.load(x + at[:, None] + channel[None, :], mask=inside, other=float("-inf"))
            best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + pixel.to(tl.int64)[:, None] * CHANNELS + channel[None, :], best, mask=there)


@triton.jit(do_not_specialize=["pixels"])
def narrow_conv(
    x,  # [images, CHANNELS, HEIGHT, WIDTH], with these strides
    weight,  # [LENGTH, COLUMNS]: rows are (line, pixel, channel) of the window, zeros beyond the last
    bias,
    scale,
    shift,
    out,  # [pixels, OUT]
    pixels,
    IMAGE_STRIDE: tl.constexpr,
    CHANNEL_STRIDE: tl.constexpr,
    LINE_STRIDE: tl.constexpr,
    PIXEL_STRIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    RELU: tl.constexpr,
    LENGTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
):
    """The convolution of scale x + shift, padded with zeros, as a product of matrices: a row for each window."""
    pixel, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    line = pixel // OUT_WIDTH
    top, left = line % OUT_HEIGHT * STRIDE - PADDING, pixel % OUT_WIDTH * STRIDE - PADDING
    image = (line // OUT_HEIGHT).to(tl.int64) * IMAGE_STRIDE
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in tl.static_range(0, LENGTH, STEP):
        place = first + tl.arange(0, STEP)
        channel, right, down = (
            place % CHANNELS,
            place // CHANNELS % SIZE,
            place // (CHANNELS * SIZE),
        )
        y, w = top[:, None] + down[None, :], left[:, None] + right[None, :]
        inside = (
            (y >= 0)
            & (y < HEIGHT)
            & (w >= 0)
            & (w < WIDTH)
            & (pixel < pixels)[:, None]
            & (down < SIZE)[None, :]
        )
        at = image[:, None] + (
            y * LINE_STRIDE + w * PIXEL_STRIDE + (channel * CHANNEL_STRIDE)[None, :]
        )
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        value = value * tl.load(scale + channel)[None, :] + tl.load(shift + channel)[None, :]
        window = tl.where(inside, value, 0.0).to(x.dtype.element_ty)
        total = tl.dot(window, tl.load(weight + place[:, None] * COLUMNS + column[None, :]), total)
    there = column < OUT
    total += tl.load(bias + column, mask=there, other=0.0)[None, :]
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    at = pixel.to(tl.int64)[:, None] * OUT + column[None, :]
    tl.store(
        out + at, total.to(out.dtype.element_ty), mask=(pixel < pixels)[:, None] & there[None, :]
    )
