"""The CIFAR ResNets on tensor cores: a 3x3 convolution that stays in the registers of each warp.

Images are padded, [height + 2, width + 2, channels] with a border of zeros, so that no tap needs a mask. A patch is
what one column of a product computes: an output pixel, or two neighbours where a pixel has only 16 channels. Its taps
in one input row are a run of contiguous numbers, cut into pieces of 32. A convolution adds up, over the pieces and
three rows, weights [OUTPUTS, 32] times images [32, patches].

Each warp has patches of its own: the products are batched, and Triton gives each entry of the batch to one warp. The
order of the 32 summands and of the outputs is free. It is such that the 16 bytes a thread loads are just the part of
the operand of a matrix instruction (mma.m16n8k16) that it holds, and that its results are contiguous in the image.
So `reshape` and `permute` below only rename registers. By way of shared memory, as usual, every number would travel
three times. Should another Triton move data here after all, the results stay the same and the speed does not.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def places(patch, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Sample, row and column of patches that are numbered through samples of HEIGHT x WIDTH patches."""
    return patch // (HEIGHT * WIDTH), patch % (HEIGHT * WIDTH) // WIDTH, patch % WIDTH


@triton.jit
def image_operand(at, PATCHES: tl.constexpr, WARPS: tl.constexpr):
    """[WARPS, 32, PATCHES]; thread 4 g + q of a warp loads numbers 8 q to 8 q + 7 of its patches 8 i + g."""
    # [i, warp, g, q, four pairs of q, pair] -> [warp, (four pairs, q, pair), (i, g)]
    loaded = tl.load(at).reshape(PATCHES // 8, WARPS, 8, 4, 4, 2)
    return loaded.permute(1, 4, 3, 5, 0, 2).reshape(WARPS, 32, PATCHES)


@triton.jit
def weight_operand(at, OUTPUTS: tl.constexpr, WARPS: tl.constexpr):
    """[WARPS, OUTPUTS, 32], the same for every warp, in the order that sampling.py writes."""
    # [sixteen outputs, product, warp, g, q, half of product, half of outputs, pair]
    # -> [warp, (sixteen outputs, half of outputs, g), (product, half of product, q, pair)]
    loaded = tl.load(at).reshape(OUTPUTS // 16, 2, WARPS, 8, 4, 2, 2, 2)
    return loaded.permute(2, 0, 6, 3, 1, 5, 4, 7).reshape(WARPS, OUTPUTS, 32)


@triton.jit
def conv_tile(
    source,
    target,
    weight,
    bias,
    start,  # the first of PATCHES * WARPS patches
    last,  # the last sample that `source` has
    HEIGHT: tl.constexpr,  # of the output
    WIDTH: tl.constexpr,
    IN: tl.constexpr,  # channels
    OUT: tl.constexpr,
    STRIDE: tl.constexpr,
    RELU: tl.constexpr,
    ADD: tl.constexpr,  # to what `target` holds
    PATCHES: tl.constexpr,  # of one warp
    WARPS: tl.constexpr,
):
    PIXELS: tl.constexpr = 2 if OUT < 32 else 1  # of a patch
    OUTPUTS: tl.constexpr = PIXELS * OUT
    SPAN: tl.constexpr = OUTPUTS // 8  # outputs of one patch that a thread holds
    RUN: tl.constexpr = IN * (4 if IN < 32 else 3)
    ROW: tl.constexpr = (WIDTH * STRIDE + 2) * IN
    OUT_ROW: tl.constexpr = (WIDTH + 2) * OUT

    i = tl.arange(0, PATCHES * WARPS)
    patch = start + i // 8 % WARPS * PATCHES + i // (8 * WARPS) * 8 + i % 8
    sample, y, x = places(patch, HEIGHT, WIDTH // PIXELS)
    if (
        IN < 16
    ):  # the stem, whose source is no longer than the batch; the slack of other buffers may be read
        sample = tl.minimum(sample, last)
    corner = (
        sample * ((HEIGHT * STRIDE + 2) * ROW) + y * (STRIDE * ROW) + x * (PIXELS * STRIDE * IN)
    )
    k = tl.arange(0, 32)
    image = source + corner[:, None] + (k % RUN)[None, :]
    n = tl.arange(0, OUTPUTS * WARPS)
    matrix = weight + ((n // (8 * WARPS) * 8 + n % 8) * 32)[:, None] + k[None, :]
    total = (
        tl.zeros((WARPS, OUTPUTS, PATCHES), tl.float32)
        + tl.load(bias + tl.arange(0, OUTPUTS))[None, :, None]
    )
    for piece in tl.static_range((RUN + 31) // 32):
        for line in tl.static_range(
            3
        ):  # innermost: one patch's line is another's next, and is loaded only once
            a = weight_operand(matrix + (piece * 3 + line) * (OUTPUTS * 32), OUTPUTS, WARPS)
            b = image_operand(image + (line * ROW + piece * 32), PATCHES, WARPS)
            total = tl.dot(a, b, total)

    # thread 4 g + q of a warp holds outputs SPAN * g and following of its patches 8 i + 2 q + j
    total = (
        total.reshape(WARPS, SPAN, 8, PATCHES // 8, 4, 2)
        .permute(3, 5, 0, 2, 4, 1)
        .reshape(PATCHES * WARPS * OUTPUTS)
    )
    e = tl.arange(0, PATCHES * WARPS * OUTPUTS)
    g, q, i = e // (4 * SPAN) % 8, e // SPAN % 4, e // (32 * SPAN * WARPS)
    patch = start + e // (32 * SPAN) % WARPS * PATCHES + i // 2 * 8 + q * 2 + i % 2
    sample, y, x = places(patch, HEIGHT, WIDTH // PIXELS)
    at = (
        sample * ((HEIGHT + 2) * OUT_ROW)
        + (y + 1) * OUT_ROW
        + (x * PIXELS + 1) * OUT
        + g * SPAN
        + e % SPAN
    )
    if ADD:
        total += tl.load(target + at).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)  # as torch does
    tl.store(target + at, total.to(target.dtype.element_ty))


@triton.jit(do_not_specialize=["batch"])
def one_conv(
    source,
    target,
    weight,
    bias,
    batch,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    STRIDE: tl.constexpr,
    RELU: tl.constexpr,
    ADD: tl.constexpr,
    PATCHES: tl.constexpr,
    WARPS: tl.constexpr,
    GROUP: tl.constexpr,  # samples whose patches fill a whole number of tiles
    TILES: tl.constexpr,
):
    """A convolution of the whole batch, a tile a program."""
    first = tl.program_id(0) // TILES * GROUP
    conv_tile(
        source + first.to(tl.int64) * ((HEIGHT * STRIDE + 2) * (WIDTH * STRIDE + 2) * IN),
        target + first.to(tl.int64) * ((HEIGHT + 2) * (WIDTH + 2) * OUT),
        weight,
        bias,
        tl.program_id(0) % TILES * (PATCHES * WARPS),
        batch - 1 - first,
        HEIGHT,
        WIDTH,
        IN,
        OUT,
        STRIDE,
        RELU,
        ADD,
        PATCHES,
        WARPS,
    )


@triton.jit(do_not_specialize=["groups", "blocks"])
def residual_blocks(
    images,  # read and written
    scratch,  # a group for each program
    weight,
    bias,
    groups,
    blocks,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    WEIGHTS: tl.constexpr,  # of one convolution
    PATCHES: tl.constexpr,
    WARPS: tl.constexpr,
    GROUP: tl.constexpr,
    TILES: tl.constexpr,
):
    """All blocks of a stage, one group of samples after the other: what a program works on stays in the caches."""
    SIZE: tl.constexpr = GROUP * (HEIGHT + 2) * (WIDTH + 2) * CHANNELS
    BIASES: tl.constexpr = CHANNELS * (2 if CHANNELS < 32 else 1)
    STEP: tl.constexpr = PATCHES * WARPS
    y = scratch + tl.program_id(0).to(tl.int64) * SIZE
    for group in tl.range(tl.program_id(0), groups, tl.num_programs(0), num_stages=1):
        x = images + tl.cast(group, tl.int64) * SIZE
        for block in tl.range(blocks, num_stages=1):
            w, b = weight + block * (2 * WEIGHTS), bias + block * (2 * BIASES)
            for tile in tl.range(TILES, num_stages=1):
                conv_tile(
                    x,
                    y,
                    w,
                    b,
                    tile * STEP,
                    0,
                    HEIGHT,
                    WIDTH,
                    CHANNELS,
                    CHANNELS,
                    1,
                    True,
                    False,
                    PATCHES,
                    WARPS,
                )
            tl.debug_barrier()  # the next convolution reads what other warps have written
            for tile in tl.range(TILES, num_stages=1):
                conv_tile(
                    y,
                    x,
                    w + WEIGHTS,
                    b + BIASES,
                    tile * STEP,
                    0,
                    HEIGHT,
                    WIDTH,
                    CHANNELS,
                    CHANNELS,
                    1,
                    True,
                    True,
                    PATCHES,
                    WARPS,
                )
            tl.debug_barrier()


@triton.jit
def head(
    images,
    weight,
    bias,
    logits,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    CLASSES: tl.constexpr,
    PIXELS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The mean over all pixels and the linear layer, in float32; a program a sample."""
    sample = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHANNELS)
    image = images + sample * ((HEIGHT + 2) * (WIDTH + 2) * CHANNELS) + c[None, :]
    total = tl.zeros((PIXELS, CHANNELS), tl.float32)
    for first in range(0, HEIGHT * WIDTH, PIXELS):
        pixel = first + tl.arange(0, PIXELS)
        at = ((pixel // WIDTH + 1) * (WIDTH + 2) + pixel % WIDTH + 1) * CHANNELS
        total += tl.load(image + at[:, None], mask=(pixel < HEIGHT * WIDTH)[:, None], other=0.0).to(
            tl.float32
        )
    mean = tl.sum(total, axis=0) / (HEIGHT * WIDTH)
    for first in range(0, CLASSES, COLUMNS):
        n = first + tl.arange(0, COLUMNS)
        w = tl.load(
            weight + n[:, None] * CHANNELS + c[None, :], mask=(n < CLASSES)[:, None], other=0.0
        )
        value = tl.sum(w * mean[None, :], axis=1) + tl.load(bias + n, mask=n < CLASSES, other=0.0)
        tl.store(logits + sample * CLASSES + n, value, mask=n < CLASSES)
