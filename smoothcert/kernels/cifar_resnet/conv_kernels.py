"""3x3 convolutions of few channels, for the CIFAR ResNets in training: TF32 products of float32, or bfloat16.

Values are [pixels, channels], the pixels of all images one after the other (channels-last memory). A product is
weights [CHANNELS, 16] times pixels [16, PIXELS], added up over the nine taps and over the channels by sixteens. Each
warp has pixels of its own, and the order of the 16 summands and of the outputs is such that what a thread loads at a
time is just what it holds of the operand of a matrix instruction (mma.m16n8k8 of TF32, mma.m16n8k16 of bfloat16): see
sampling_kernels.py, where the same is done for sampling. So `reshape` and `permute` below only rename registers, and
nothing goes by shared memory but the last sum of a weight gradient.

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
def pixels_operand(loaded, PIXELS: tl.constexpr, WARPS: tl.constexpr):
    """[WARPS, 16, PIXELS]; thread 4 g + q of a warp has loaded four numbers of its pixels 8 i + g."""
    # [i, warp, g, q, four numbers in two pairs] -> [warp, (four numbers, q), (i, g)], in bfloat16 pairs side by side
    parts = loaded.reshape(PIXELS // 8, WARPS, 8, 4, 2, 2)
    parts = parts.permute(1, 4, 5, 3, 0, 2) if loaded.dtype == tl.float32 else parts.permute(1, 4, 3, 5, 0, 2)
    return parts.reshape(WARPS, 16, PIXELS)


@triton.jit
def weights_operand(loaded, CHANNELS: tl.constexpr, WARPS: tl.constexpr):
    """[WARPS, CHANNELS, 16], the same for every warp."""
    # [sixteen channels, half of them, warp, g, q, four numbers in two pairs]
    # -> [warp, (sixteen channels, half of them, g), (four numbers, q)], in bfloat16 pairs side by side
    parts = loaded.reshape(CHANNELS // 16, 2, WARPS, 8, 4, 2, 2)
    parts = parts.permute(2, 0, 1, 3, 5, 6, 4) if loaded.dtype == tl.float32 else parts.permute(2, 0, 1, 3, 5, 4, 6)
    return parts.reshape(WARPS, CHANNELS, 16)


@triton.jit(do_not_specialize=["pixels"])
def conv3x3(
    source,
    weight,  # [CHANNELS, 3, 3, CHANNELS]
    bias,
    shortcut,
    active,
    target,
    pixels,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    SCALE: tl.constexpr,
    BIAS: tl.constexpr,
    ADD: tl.constexpr,  # the shortcut
    RELU: tl.constexpr,
    MASK: tl.constexpr,  # zero where `active` is not positive: what a gradient meets at a ReLU
    PIXELS: tl.constexpr,  # of one warp
    WARPS: tl.constexpr,
):
    SPAN: tl.constexpr = CHANNELS // 8  # neighbouring channels of one pixel that a thread computes
    start = tl.program_id(0).to(tl.int64) * (PIXELS * WARPS)
    i = tl.arange(0, PIXELS * WARPS)
    offset = i // 8 % WARPS * PIXELS + i // (8 * WARPS) * 8 + i % 8
    place = (start % (HEIGHT * WIDTH)).to(tl.int32) + offset
    y, x = place % (HEIGHT * WIDTH) // WIDTH, place % WIDTH
    k = tl.arange(0, 16)
    k = (k // 4 ^ 1) * 4 + k % 4  # any order will do; this one keeps Triton from giving a thread more than 4 at a time
    image = source + start * CHANNELS + (offset * CHANNELS)[:, None] + k[None, :]
    n = tl.arange(0, CHANNELS * WARPS)
    matrix = weight + ((n % 8 * SPAN + n // (8 * WARPS)) * (9 * CHANNELS))[:, None] + k[None, :]
    total = tl.zeros((WARPS, CHANNELS, PIXELS), tl.float32)
    for line in tl.static_range(3):
        for column in tl.static_range(3):
            inside = (start + offset < pixels) & (y + line >= 1) & (y + line <= HEIGHT)
            inside = inside & (x + column >= 1) & (x + column <= WIDTH)
            for piece in tl.static_range(CHANNELS // 16):
                a = tl.load(matrix + ((line * 3 + column) * CHANNELS + piece * 16))
                shift = ((line - 1) * WIDTH + column - 1) * CHANNELS + piece * 16
                b = tl.load(image + shift, mask=inside[:, None], other=0.0)
                a = weights_operand(a, CHANNELS, WARPS)
                total = tl.dot(a, pixels_operand(b, PIXELS, WARPS), total, input_precision="tf32")
    total *= SCALE
    if BIAS:
        m = tl.arange(0, CHANNELS)
        total += tl.load(bias + m % 8 * SPAN + m // 8)[None, :, None]

    # thread 4 g + q of a warp holds channels SPAN * g and following of its pixels 8 i + 2 q + j
    total = (
        total.reshape(WARPS, SPAN, 8, PIXELS // 8, 4, 2).permute(3, 5, 0, 2, 4, 1).reshape(PIXELS * WARPS * CHANNELS)
    )
    e = tl.arange(0, PIXELS * WARPS * CHANNELS)
    g, q, i = e // (4 * SPAN) % 8, e // SPAN % 4, e // (32 * SPAN * WARPS)
    offset = e // (32 * SPAN) % WARPS * PIXELS + i // 2 * 8 + q * 2 + i % 2
    at = start * CHANNELS + (offset * CHANNELS + g * SPAN + e % SPAN)
    inside = start + offset < pixels
    if ADD:
        total += tl.load(shortcut + at, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)  # as torch does
    if MASK:
        total = tl.where(tl.load(active + at, mask=inside, other=0.0).to(tl.float32) <= 0.0, 0.0, total)
    tl.store(target + at, total.to(target.dtype.element_ty), mask=inside)


@triton.jit
def channels_operand(at, inside, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, WARPS: tl.constexpr):
    """[WARPS, CHANNELS, PIXELS]; thread 4 g + q of a warp loads CHANNELS / 8 channels, from g on, of 4 pixels in 16."""
    loaded = tl.load(at, mask=inside, other=0.0)
    parts = loaded.reshape(PIXELS // 16, 2, 2, WARPS, 8, 4, CHANNELS // 8)  # 16 pixels, four of them, warp, g, q
    parts = parts.permute(3, 6, 4, 0, 1, 2, 5) if loaded.dtype == tl.float32 else parts.permute(3, 6, 4, 0, 1, 5, 2)
    return parts.reshape(WARPS, CHANNELS, PIXELS)


@triton.jit(do_not_specialize=["pixels", "each"])
def conv3x3_weights(
    gradient,
    source,
    parts,  # [programs, CHANNELS, 3, 3, CHANNELS]
    pixels,
    each,  # a multiple of PIXELS * WARPS
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    SCALE: tl.constexpr,
    PIXELS: tl.constexpr,  # of one warp at a time
    WARPS: tl.constexpr,
):
    """The gradient of a convolution's weights; a program has a line of taps and `each` pixels."""
    SPAN: tl.constexpr = CHANNELS // 8
    e = tl.arange(0, PIXELS * WARPS * CHANNELS)
    i, q = e // (32 * SPAN * WARPS), e // SPAN % 4
    offset = e // (32 * SPAN) % WARPS * PIXELS
    if source.dtype.element_ty == tl.float32:
        offset += i * 4 + q
    else:
        offset += i // 2 * 8 + q * 2 + i % 2
    place = offset * CHANNELS + e // (4 * SPAN) % 8 * SPAN + e % SPAN
    line, first = tl.program_id(1), tl.program_id(0).to(tl.int64) * each
    left = tl.zeros((WARPS, CHANNELS, CHANNELS), tl.float32)
    middle = tl.zeros((WARPS, CHANNELS, CHANNELS), tl.float32)
    right = tl.zeros((WARPS, CHANNELS, CHANNELS), tl.float32)
    for tile in tl.range(0, each, PIXELS * WARPS, num_stages=1):
        start = first + tile
        pixel = (start % (HEIGHT * WIDTH)).to(tl.int32) + offset
        y, x = pixel % (HEIGHT * WIDTH) // WIDTH, pixel % WIDTH
        inside = start + offset < pixels
        a = channels_operand(gradient + start * CHANNELS + place, inside, CHANNELS, PIXELS, WARPS)
        inside = inside & (y + line >= 1) & (y + line <= HEIGHT)
        at = source + (start + (line - 1) * WIDTH) * CHANNELS + place
        b = channels_operand(at - CHANNELS, inside & (x >= 1), CHANNELS, PIXELS, WARPS)
        left = tl.dot(a, b.permute(0, 2, 1), left, input_precision="tf32")
        b = channels_operand(at, inside, CHANNELS, PIXELS, WARPS)
        middle = tl.dot(a, b.permute(0, 2, 1), middle, input_precision="tf32")
        b = channels_operand(at + CHANNELS, inside & (x < WIDTH - 1), CHANNELS, PIXELS, WARPS)
        right = tl.dot(a, b.permute(0, 2, 1), right, input_precision="tf32")
    n = tl.arange(0, CHANNELS)
    channel = n % 8 * SPAN + n // 8
    to = parts + tl.program_id(0).to(tl.int64) * (CHANNELS * 9 * CHANNELS) + line * (3 * CHANNELS)
    to += (channel * (9 * CHANNELS))[:, None] + channel[None, :]
    tl.store(to, tl.sum(left, axis=0) * SCALE)
    tl.store(to + CHANNELS, tl.sum(middle, axis=0) * SCALE)
    tl.store(to + 2 * CHANNELS, tl.sum(right, axis=0) * SCALE)
