"""Batch normalisation in training, with the ReLU and the addition of a shortcut that follow it, and their gradients.

Values are [rows, CHANNELS], a row being a pixel of an image (channels-last memory). Sums over rows are made in shares
and added up in one order: no atomics, so that the same numbers give the same bits. Sums are in float32, whatever the
type of the values.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_of(first, rows, CHANNELS: tl.constexpr, TILE: tl.constexpr):
    """Where the values of TILE rows from `first` on are, and which of them exist."""
    row = first + tl.arange(0, TILE)
    return row[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :], (row < rows)[:, None]


@triton.jit
def centred(x, centre, at, inside):
    return tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - centre[None, :]


@triton.jit(do_not_specialize=["rows", "each"])
def moments(x, parts, rows, each, CHANNELS: tl.constexpr, TILE: tl.constexpr):
    """Count, mean and squares around it: parts [programs, 3, CHANNELS]; `each` rows a program, a multiple of TILE.

    A program subtracts its first row: a number near the mean keeps digits that the difference of squares would lose.
    """
    c = tl.arange(0, CHANNELS)
    first = tl.program_id(0).to(tl.int64) * each
    pivot = tl.load(x + first * CHANNELS + c).to(tl.float32)
    total = tl.zeros([TILE, CHANNELS], tl.float32)
    squares = tl.zeros([TILE, CHANNELS], tl.float32)
    for tile in range(0, each, TILE):
        at, inside = tile_of(first + tile, rows, CHANNELS, TILE)
        value = tl.where(inside, centred(x, pivot, at, inside), 0.0)
        total += value
        squares += value * value
    count = tl.minimum(rows - first, each).to(tl.float32)
    offset = tl.sum(total, axis=0) / count
    at = parts + tl.program_id(0) * 3 * CHANNELS + c
    tl.store(at, tl.zeros([CHANNELS], tl.float32) + count)
    tl.store(at + CHANNELS, pivot + offset)
    tl.store(at + 2 * CHANNELS, tl.sum(squares, axis=0) - count * offset * offset)


@triton.jit(do_not_specialize=["shares", "rows"])
def statistics(
    parts,  # [shares, 3, CHANNELS]: count, mean and squares around it
    running_mean,
    running_variance,
    mean,
    scale,
    shares,
    rows,
    epsilon,
    momentum,
    CHANNELS: tl.constexpr,
    COLUMNS: tl.constexpr,  # channels of a program
    ROWS: tl.constexpr,
):
    """Mean and 1 / standard deviation of each channel; moves the running ones, whose variance is the unbiased one."""
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    pivot = tl.load(parts + CHANNELS + c)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    squares = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, shares, ROWS):
        share = first + tl.arange(0, ROWS)
        at = parts + share[:, None] * (3 * CHANNELS) + c[None, :]
        inside = (share < shares)[:, None]
        count = tl.load(at, mask=inside, other=0.0)
        away = tl.load(at + CHANNELS, mask=inside, other=0.0) - pivot[None, :]
        total += count * away
        squares += tl.load(at + 2 * CHANNELS, mask=inside, other=0.0) + count * away * away
    offset = tl.sum(total, axis=0) / rows
    centre = pivot + offset
    square = tl.sum(squares, axis=0) / rows
    variance = tl.maximum(square - offset * offset, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(mean + c, centre)
    tl.store(scale + c, 1.0 / tl.sqrt(variance + epsilon))
    old = tl.load(running_mean + c)
    tl.store(running_mean + c, old + momentum * (centre - old))
    old = tl.load(running_variance + c)
    tl.store(running_variance + c, old + momentum * (variance * (rows / (rows - 1.0)) - old))


@triton.jit(do_not_specialize=["rows"])
def norm_relu(
    x,
    mean,
    scale,
    gamma,
    beta,
    shortcut,
    out,
    rows,
    CHANNELS: tl.constexpr,
    ADD: tl.constexpr,  # the shortcut
    RELU: tl.constexpr,
    TILE: tl.constexpr,
):
    """relu(norm(x) + shortcut), from the statistics of each channel."""
    c = tl.arange(0, CHANNELS)
    at, inside = tile_of(tl.program_id(0).to(tl.int64) * TILE, rows, CHANNELS, TILE)
    factor = tl.load(scale + c) * tl.load(gamma + c)
    value = centred(x, tl.load(mean + c), at, inside)
    value = value * factor[None, :] + tl.load(beta + c)[None, :]
    if ADD:
        value += tl.load(shortcut + at, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def passed(gradient, out, at, inside, RELU: tl.constexpr):
    """The gradient before the ReLU."""
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        g = tl.where(tl.load(out + at, mask=inside, other=0.0).to(tl.float32) <= 0.0, 0.0, g)
    return g


@triton.jit(do_not_specialize=["rows", "each"])
def norm_relu_sums(
    gradient,
    out,
    x,
    mean,
    scale,
    parts,
    rows,
    each,
    CHANNELS: tl.constexpr,
    RELU: tl.constexpr,
    TILE: tl.constexpr,
):
    """Gradients of beta and gamma over `each` rows a program, a multiple of TILE: parts [programs, 2, CHANNELS]."""
    c = tl.arange(0, CHANNELS)
    centre = tl.load(mean + c)
    first = tl.program_id(0).to(tl.int64) * each
    to_beta = tl.zeros([TILE, CHANNELS], tl.float32)
    to_gamma = tl.zeros([TILE, CHANNELS], tl.float32)
    for tile in range(0, each, TILE):
        at, inside = tile_of(first + tile, rows, CHANNELS, TILE)
        g = passed(gradient, out, at, inside, RELU)
        to_beta += g
        to_gamma += g * centred(x, centre, at, inside)
    at = parts + tl.program_id(0) * 2 * CHANNELS + c
    tl.store(at, tl.sum(to_beta, axis=0))
    tl.store(at + CHANNELS, tl.sum(to_gamma, axis=0) * tl.load(scale + c))


@triton.jit(do_not_specialize=["rows"])
def norm_relu_back(
    gradient,
    out,
    x,
    mean,
    scale,
    gamma,
    sums,  # [2, CHANNELS]: gradients of beta and gamma
    to_x,
    to_shortcut,
    rows,
    CHANNELS: tl.constexpr,
    ADD: tl.constexpr,  # there was a shortcut, whose gradient is wanted
    RELU: tl.constexpr,
    TILE: tl.constexpr,
):
    """The gradients of x and of the shortcut, from that of the output."""
    c = tl.arange(0, CHANNELS)
    at, inside = tile_of(tl.program_id(0).to(tl.int64) * TILE, rows, CHANNELS, TILE)
    g = passed(gradient, out, at, inside, RELU)
    if ADD:
        tl.store(to_shortcut + at, g.to(to_shortcut.dtype.element_ty), mask=inside)
    s = tl.load(scale + c)
    mean_g, slope = tl.load(sums + c) / rows, tl.load(sums + CHANNELS + c) * s / rows
    value = centred(x, tl.load(mean + c), at, inside)
    g = (g - mean_g[None, :] - value * slope[None, :]) * (s * tl.load(gamma + c))[None, :]
    tl.store(to_x + at, g.to(to_x.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["shares", "columns"])
def add_up(parts, out, shares, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sums [groups, columns] of parts [groups, shares, columns]."""
    group = tl.program_id(1)
    parts += group.to(tl.int64) * shares * columns
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, shares, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < shares)[:, None] & (column < columns)[None, :]
        total += tl.load(parts + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out + group * columns + column, tl.sum(total, axis=0), mask=column < columns)
