"""The gradient of a 3x3 convolution's weights, by the same means as in conv_kernels.py.

A product is gradients [16, 32 pixels] times inputs [32 pixels, 16], channels by sixteens, for each of the nine taps.
Each thread 4 g + q of a warp loads two channels, 2 g and 2 g + 1, of the pixels of group q: four neighbouring columns
and ROWS rows, with the pixels around them.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl

from smoothcert.kernels.cifar_resnet.conv_kernels import place_of


@triton.jit
def channels_operand(found, at: tl.constexpr, WIDTH: tl.constexpr, WARPS: tl.constexpr):
    """[WARPS, 16, 32]: channels, and pixels of two lines and four columns of each group, `found` being WIDTH wide."""
    upper = tl.join(tl.join(found[at], found[at + 1]), tl.join(found[at + 2], found[at + 3]))
    below: tl.constexpr = at + WIDTH
    lower = tl.join(
        tl.join(found[below], found[below + 1]), tl.join(found[below + 2], found[below + 3])
    )
    # [warp, g, q, channel in two, column in two, half, line]
    # -> [warp, (channel in two, g), (line, half, q, column in two)], in bfloat16 halves side by side: after `join`,
    # Triton wants a thread to have two neighbouring summands of float32, and four of bfloat16
    parts = tl.join(upper, lower).reshape(WARPS, 8, 4, 2, 2, 2, 2)
    parts = (
        parts.permute(0, 3, 1, 6, 5, 2, 4)
        if upper.dtype == tl.float32
        else parts.permute(0, 3, 1, 6, 2, 5, 4)
    )
    return parts.reshape(WARPS, 16, 32)


@triton.jit(do_not_specialize=["images", "each"])
def conv3x3_weights(
    gradient,
    source,
    parts,  # [programs, CHANNELS, 3, 3, CHANNELS]
    images,
    each,  # times that a program takes a tile for each warp
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    SCALE: tl.constexpr,
    ROWS: tl.constexpr,  # even
    RUNS: tl.constexpr,
):
    WARPS: tl.constexpr = 4
    FITS: tl.constexpr = HEIGHT % (4 // RUNS * ROWS) == 0 and WIDTH % (4 * RUNS) == 0
    PER_IMAGE: tl.constexpr = tl.cdiv(HEIGHT, 4 // RUNS * ROWS) * tl.cdiv(WIDTH, 4 * RUNS)
    outputs, inputs = (
        tl.program_id(1) // (CHANNELS // 16) * 16,
        tl.program_id(1) % (CHANNELS // 16) * 16,
    )
    e = tl.arange(0, 64 * WARPS)  # [warp, g, q, channel in two]
    totals = (tl.zeros((WARPS, 16, 16), tl.float32),) * 9
    for step in tl.range(tl.program_id(0) * each, tl.program_id(0) * each + each, num_stages=1):
        first = step * WARPS // PER_IMAGE
        tile = step * WARPS - first * PER_IMAGE + e // 64
        image, y, x = place_of(tile, e // 2 % 4, HEIGHT, WIDTH, ROWS, RUNS, 4)
        there = image < images - first
        place = first.to(tl.int64) * (HEIGHT * WIDTH * CHANNELS)
        place += ((image * HEIGHT + y) * WIDTH + x) * CHANNELS + (e // 8 % 8 * 2 + e % 2)
        to_out, found = (), ()
        for line in tl.static_range(ROWS):
            for column in tl.static_range(4):
                inside = there & (FITS | ((y + line < HEIGHT) & (x + column < WIDTH)))
                at = gradient + outputs + place + (line * WIDTH + column) * CHANNELS
                to_out += (tl.load(at, mask=inside, other=0.0),)
        for line in tl.static_range(ROWS + 2):
            for column in tl.static_range(6):
                inside = there
                if line == 0:
                    inside = inside & (y > 0)
                if line == ROWS + 1 or not FITS:
                    inside = inside & (y + line <= HEIGHT)
                if column == 0:
                    inside = inside & (x > 0)
                if column == 5 or not FITS:
                    inside = inside & (x + column <= WIDTH)
                at = source + inputs + place + ((line - 1) * WIDTH + column - 1) * CHANNELS
                found += (tl.load(at, mask=inside, other=0.0),)
        for line in tl.static_range(0, ROWS, 2):
            a = channels_operand(to_out, line * 4, 4, WARPS)
            added = ()
            for tap in tl.static_range(9):
                b = channels_operand(found, (line + tap // 3) * 6 + tap % 3, 6, WARPS)
                added += (tl.dot(a, b.permute(0, 2, 1), totals[tap], input_precision="tf32"),)
            totals = added
    n = tl.arange(0, 16)
    channel = n % 8 * 2 + n // 8
    to = parts + tl.program_id(0).to(tl.int64) * (CHANNELS * 9 * CHANNELS)
    to += ((outputs + channel) * (9 * CHANNELS))[:, None] + (inputs + channel)[None, :]
    for tap in tl.static_range(9):
        one, two = tl.split(
            totals[tap].reshape(2, 2, 16, 16).permute(1, 2, 3, 0)
        )  # tl.sum would move them twice
        one, two = tl.split((one + two).permute(1, 2, 0))
        tl.store(to + tap * CHANNELS, (one + two) * SCALE)
