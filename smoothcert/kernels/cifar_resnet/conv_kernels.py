"""3x3 convolutions of few channels, for the CIFAR ResNets in training: TF32 products of float32, or bfloat16.

Values are [images, height, width, channels] (channels-last memory). A product is weights [CHANNELS, 16] times pixels
[16, 8], added up over the nine taps and over the channels by sixteens. Each warp has a tile of pixels of its own, in
which each group g of four threads has four neighbouring columns and ROWS rows. It loads them with the pixels around
them. So the neighbour of a pixel that a tap looks at is in another register of the same thread: with two rows, each
value is loaded three times and not nine times.

The order of the 16 summands and of the outputs is such that what a thread loads at a time is just what it holds of the
operand of a matrix instruction (mma.m16n8k8 of TF32, mma.m16n8k16 of bfloat16): see sampling_kernels.py, where the same
is done for sampling. So `reshape` and `permute` below only rename registers, and nothing goes by shared memory but
sums over a whole program.

TF32 instructions cut both factors to 10 bits instead of rounding them. Each gets too small by that, by 0.72 / 2048 in
the mean: half of the last bit, times the mean 1 / (2 ln 2) of 1 / m over mantissas m. Sums are multiplied by SCALE to
make up for it, after which they are as good as those of rounded factors.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def place_of(
    tile,
    group,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    RUNS: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Image, line and column of the first pixel of a group: RUNS of the GROUPS of a tile lie side by side."""
    LINES: tl.constexpr = GROUPS // RUNS * ROWS  # of a tile
    DOWN: tl.constexpr = (HEIGHT + LINES - 1) // LINES  # tiles of an image
    ACROSS: tl.constexpr = (WIDTH + 4 * RUNS - 1) // (4 * RUNS)
    y = tile // ACROSS % DOWN * LINES + group // RUNS * ROWS
    return tile // (DOWN * ACROSS), y, tile % ACROSS * (4 * RUNS) + group % RUNS * 4


@triton.jit
def pixels_operand(loaded, WARPS: tl.constexpr):
    """[WARPS, 16, 8]; thread 4 g + q of a warp has loaded four numbers of the pixel of group g."""
    # [warp, g, q, four numbers in two pairs] -> [warp, (four numbers, q), g], in bfloat16 pairs side by side
    parts = loaded.reshape(WARPS, 8, 4, 2, 2)
    parts = (
        parts.permute(0, 3, 4, 2, 1) if loaded.dtype == tl.float32 else parts.permute(0, 3, 2, 4, 1)
    )
    return parts.reshape(WARPS, 16, 8)


@triton.jit
def weights_operand(matrix, CHANNELS: tl.constexpr, WARPS: tl.constexpr):
    """[WARPS, CHANNELS, 16], the same for every warp, in the order of `arrangement` in conv.py."""
    e = tl.arange(0, CHANNELS * 16 * WARPS)
    if matrix.dtype.element_ty == tl.float32:
        # [sixteen outputs, pair, warp, g, q, number in a pair, half of outputs]
        loaded = tl.load(matrix + (e // (128 * WARPS) * 128 + e % 128))
        parts = loaded.reshape(CHANNELS // 16, 2, WARPS, 8, 4, 2, 2).permute(2, 0, 6, 3, 1, 5, 4)
    else:
        # [sixteen outputs, warp, g, q, pair, half of outputs, number in a pair]
        loaded = tl.load(matrix + (e // (256 * WARPS) * 256 + e % 256))
        parts = loaded.reshape(CHANNELS // 16, WARPS, 8, 4, 2, 2, 2).permute(1, 0, 5, 2, 4, 3, 6)
    return parts.reshape(WARPS, CHANNELS, 16)


@triton.jit
def channel_sums(values, CHANNELS: tl.constexpr, PIECE: tl.constexpr, WARPS: tl.constexpr):
    """[CHANNELS]; the order of `values` is that of the results in `conv3x3`."""
    HALVES: tl.constexpr = CHANNELS // 8 // PIECE
    total = tl.sum(values.reshape(2, HALVES, WARPS, 8, 4, PIECE), axis=0)
    total = tl.sum(tl.sum(total, axis=3), axis=1)
    return total.permute(1, 0, 2).reshape(CHANNELS)


@triton.jit(do_not_specialize=["images"])
def conv3x3(
    source,
    weight,  # as `arrangement` in conv.py has it
    bias,
    shortcut,
    active,
    normed,
    mean,
    scale,
    target,
    parts,
    images,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    SCALE: tl.constexpr,
    BIAS: tl.constexpr,
    ADD: tl.constexpr,  # the shortcut
    RELU: tl.constexpr,
    MASK: tl.constexpr,  # zero where `active` is not positive: what a gradient meets at a ReLU
    MOMENTS: tl.constexpr,  # parts [programs, 3, CHANNELS]: of the outputs their count, mean and squares around it
    SUMS: tl.constexpr,  # parts [programs, 2, CHANNELS]: gradients of beta and gamma, the outputs being those of a norm
    ROWS: tl.constexpr,
    RUNS: tl.constexpr,
    WARPS: tl.constexpr,
):
    SPAN: tl.constexpr = CHANNELS // 8  # neighbouring channels of one pixel that a thread computes
    # whether tiles have no pixels beyond the borders
    FITS: tl.constexpr = HEIGHT % (8 // RUNS * ROWS) == 0 and WIDTH % (4 * RUNS) == 0
    STEP: tl.constexpr = min(CHANNELS, 32)  # input channels whose code is written out
    PER_IMAGE: tl.constexpr = tl.cdiv(HEIGHT, 8 // RUNS * ROWS) * tl.cdiv(WIDTH, 4 * RUNS)
    tile = tl.program_id(0) * WARPS
    first = tile // PER_IMAGE
    start = first.to(tl.int64) * (HEIGHT * WIDTH * CHANNELS)
    tile, images = tile - first * PER_IMAGE, images - first
    i = tl.arange(0, 8 * WARPS)
    image, y, x = place_of(tile + i // 8, i % 8, HEIGHT, WIDTH, ROWS, RUNS, 8)
    k = tl.arange(0, 16)
    # any order will do; this one keeps Triton from giving a thread more than 4 at a time
    k = (k // 4 ^ 1) * 4 + k % 4
    place = source + start + (((image * HEIGHT + y) * WIDTH + x) * CHANNELS)[:, None] + k[None, :]
    totals = ()
    for _ in tl.static_range(4 * ROWS):
        totals += (tl.zeros((WARPS, CHANNELS, 8), tl.float32),)
    for some in tl.range(0, CHANNELS, STEP, num_stages=1):
        for piece in tl.static_range(STEP // 16):
            found = ()
            for line in tl.static_range(ROWS + 2):
                for column in tl.static_range(6):
                    inside = image < images
                    if line == 0:
                        inside = inside & (y > 0)
                    if line == ROWS + 1 or not FITS:
                        inside = inside & (y + line <= HEIGHT)
                    if column == 0:
                        inside = inside & (x > 0)
                    if column == 5 or not FITS:
                        inside = inside & (x + column <= WIDTH)
                    at = place + some + (((line - 1) * WIDTH + column - 1) * CHANNELS + piece * 16)
                    found += (pixels_operand(tl.load(at, mask=inside[:, None], other=0.0), WARPS),)
            for tap in tl.static_range(9):
                at = weight + some * CHANNELS + (tap * CHANNELS + piece * 16) * CHANNELS
                a, added = weights_operand(at, CHANNELS, WARPS), ()
                for t in tl.static_range(4 * ROWS):
                    b = found[(t // 4 + tap // 3) * 6 + t % 4 + tap % 3]
                    added += (tl.dot(a, b, totals[t], input_precision="tf32"),)
                totals = added

    # thread 4 g + q of a warp holds channels SPAN * g and following of the pixels of groups 2 q and 2 q + 1
    PIECE: tl.constexpr = min(
        SPAN, 4 if target.dtype.element_ty == tl.float32 else 8
    )  # of them, in 16 bytes
    e = tl.arange(0, 64 * SPAN * WARPS)  # [group in two, piece, warp, g, q, channel of a piece]
    channel = (
        e // (4 * PIECE) % 8 * SPAN
        + e // (32 * PIECE * WARPS) % (SPAN // PIECE) * PIECE
        + e % PIECE
    )
    group = e // PIECE % 4 * 2 + e // (32 * SPAN * WARPS)
    image, y, x = place_of(tile + e // (32 * PIECE) % WARPS, group, HEIGHT, WIDTH, ROWS, RUNS, 8)
    place = start + (((image * HEIGHT + y) * WIDTH + x) * CHANNELS + channel)
    offset = tl.load(bias + channel) if BIAS else channel
    centre = tl.load(mean + channel) if SUMS else channel
    insides, shortcuts, actives, normeds = (), (), (), ()
    for t in tl.static_range(4 * ROWS):  # all of them at once: no load is moved across a store
        shift = (t // 4 * WIDTH + t % 4) * CHANNELS
        inside = (image < images) & (FITS | ((y + t // 4 < HEIGHT) & (x + t % 4 < WIDTH)))
        insides += (inside,)
        if ADD:
            shortcuts += (tl.load(shortcut + place + shift, mask=inside, other=0.0),)
        if MASK:
            actives += (tl.load(active + place + shift, mask=inside, other=0.0),)
        if SUMS:
            normeds += (tl.load(normed + place + shift, mask=inside, other=0.0),)
    values = ()
    one = tl.zeros((64 * SPAN * WARPS,), tl.float32)
    two = tl.zeros((64 * SPAN * WARPS,), tl.float32)
    for t in tl.static_range(4 * ROWS):
        value = totals[t].reshape(WARPS, SPAN // PIECE, PIECE, 8, 4, 2).permute(5, 1, 0, 3, 4, 2)
        value = value.reshape(64 * SPAN * WARPS) * SCALE
        if BIAS:
            value += offset
        if ADD:
            value += shortcuts[t].to(tl.float32)
        if RELU:
            value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)  # as torch does
        if MASK:
            value = tl.where(actives[t].to(tl.float32) <= 0.0, 0.0, value)
        to = target + place + (t // 4 * WIDTH + t % 4) * CHANNELS
        tl.store(to, value.to(target.dtype.element_ty), mask=insides[t])
        if MOMENTS or SUMS:
            value = tl.where(insides[t], value, 0.0)
            one += value
        if MOMENTS:
            values += (value,)
        if SUMS:
            two += value * (normeds[t].to(tl.float32) - centre)

    c = tl.arange(0, CHANNELS)
    if SUMS:
        to = parts + tl.program_id(0) * (2 * CHANNELS) + c
        tl.store(to, channel_sums(one, CHANNELS, PIECE, WARPS))
        tl.store(to + CHANNELS, channel_sums(two, CHANNELS, PIECE, WARPS) * tl.load(scale + c))
    if MOMENTS:
        count = tl.zeros((CHANNELS,), tl.float32) + tl.minimum(images * PER_IMAGE - tile, WARPS) * (
            32 * ROWS
        )
        if not FITS:
            for t in tl.static_range(4 * ROWS):
                two += insides[t].to(tl.float32)
            count = channel_sums(two, CHANNELS, PIECE, WARPS)
        average = channel_sums(one, CHANNELS, PIECE, WARPS) / count
        to = parts + tl.program_id(0) * (3 * CHANNELS) + c
        tl.store(to, count)
        tl.store(to + CHANNELS, average)
        # the same number for each value, in their order
        spread = average.reshape(8, SPAN // PIECE, PIECE).permute(1, 0, 2)[
            None, :, None, :, None, :
        ]
        spread = tl.broadcast_to(spread, (2, SPAN // PIECE, WARPS, 8, 4, PIECE)).reshape(
            64 * SPAN * WARPS
        )
        squares = tl.zeros((64 * SPAN * WARPS,), tl.float32)
        for t in tl.static_range(4 * ROWS):
            away = tl.where(insides[t], values[t] - spread, 0.0)
            squares += away * away
        tl.store(to + 2 * CHANNELS, channel_sums(squares, CHANNELS, PIECE, WARPS))
