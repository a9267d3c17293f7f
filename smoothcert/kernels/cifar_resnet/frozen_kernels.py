"""All blocks of a stage of a CIFAR ResNet in one kernel, and the gradient of their input: what an attack step needs.

Convolutions are those of sampling_kernels.py. Forward, each thread also writes down which of its results a ReLU
stopped, a bit each. Backward, the same thread has the gradient of the same numbers, so that the order of these bits is
nobody else's business: `stopped_places` makes them 16 bytes of a thread in a row.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl

from smoothcert.kernels.cifar_resnet.sampling_kernels import conv_values, relu, value_places


@triton.jit
def keep_stopped(value, stopped, SPAN: tl.constexpr, COUNT: tl.constexpr, THREADS: tl.constexpr):
    """Writes the bits of [COUNT, THREADS, SPAN] values, a byte for each SPAN. NaN is not stopped: it is noticed."""
    ROW: tl.constexpr = min(COUNT, 16)
    bit = (value <= 0.0).to(tl.int32).reshape(COUNT, THREADS, SPAN) << tl.arange(0, SPAN)[None, None, :]
    byte = tl.sum(bit, axis=2).reshape(COUNT // ROW, ROW, THREADS).permute(0, 2, 1)
    tl.store(stopped + tl.arange(0, COUNT * THREADS), byte.reshape(COUNT * THREADS).to(tl.uint8))


@triton.jit
def zero_stopped(value, stopped, SPAN: tl.constexpr, COUNT: tl.constexpr, THREADS: tl.constexpr):
    """The values, but 0 where the bit of `keep_stopped` is set."""
    ROW: tl.constexpr = min(COUNT, 16)
    byte = tl.load(stopped + tl.arange(0, COUNT * THREADS)).to(tl.int32)
    byte = byte.reshape(COUNT // ROW, THREADS, ROW).permute(0, 2, 1).reshape(COUNT, THREADS)
    bit = byte[:, :, None] >> tl.arange(0, SPAN)[None, None, :] & 1
    return tl.where(bit.reshape(COUNT * THREADS * SPAN) != 0, 0.0, value)


@triton.jit
def frozen_conv(
    source,
    target,
    weight,
    bias,
    stopped,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    FORWARD: tl.constexpr,
    ADD: tl.constexpr,  # to what `target` holds
    PATCHES: tl.constexpr,
    WARPS: tl.constexpr,
    TILES: tl.constexpr,
):
    """A convolution of a group of samples, with ReLU and bits forward, with the bits of a ReLU backward."""
    SPAN: tl.constexpr = CHANNELS * (2 if CHANNELS < 32 else 1) // 8
    for tile in tl.range(TILES, num_stages=1):
        start = tile * (PATCHES * WARPS)
        value = conv_values(
            source, weight, bias, start, 0, HEIGHT, WIDTH, CHANNELS, CHANNELS, 1, FORWARD, PATCHES, WARPS
        )
        at = value_places(start, HEIGHT, WIDTH, CHANNELS, PATCHES, WARPS)
        if ADD:
            value += tl.load(target + at).to(tl.float32)
        if FORWARD:
            value = relu(value)
            keep_stopped(value, stopped + start * 8, SPAN, PATCHES // 4, WARPS * 32)
        else:
            value = zero_stopped(value, stopped + start * 8, SPAN, PATCHES // 4, WARPS * 32)
        tl.store(target + at, value.to(target.dtype.element_ty))
    tl.debug_barrier()  # the next convolution reads what other warps have written


@triton.jit(do_not_specialize=["blocks"])
def blocks_forward(
    images,  # read and written, a group of samples a program, as all others
    scratch,
    weight,
    bias,
    stopped,  # [2 * blocks + 1, groups, bytes]; the first are 0, and those of a convolution k are at k + 1
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
    """x -> relu(x + conv2(relu(conv1(x)))), block after block."""
    SIZE: tl.constexpr = GROUP * (HEIGHT + 2) * (WIDTH + 2) * CHANNELS
    BIASES: tl.constexpr = CHANNELS * (2 if CHANNELS < 32 else 1)
    BYTES: tl.constexpr = TILES * PATCHES * WARPS * 8
    group, plane = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64) * BYTES
    x, y, bits = images + group * SIZE, scratch + group * SIZE, stopped + group * BYTES
    for block in tl.range(blocks, num_stages=1):
        w, b, s = weight + block * (2 * WEIGHTS), bias + block * (2 * BIASES), bits + (2 * block + 1) * plane
        frozen_conv(x, y, w, b, s, HEIGHT, WIDTH, CHANNELS, True, False, PATCHES, WARPS, TILES)
        w, b, s = w + WEIGHTS, b + BIASES, s + plane
        frozen_conv(y, x, w, b, s, HEIGHT, WIDTH, CHANNELS, True, True, PATCHES, WARPS, TILES)


@triton.jit(do_not_specialize=["blocks"])
def blocks_backward(
    images,  # the gradient of what the last ReLU got, and in the end that of the first block's input
    scratch,
    weight,  # mirrored
    stopped,
    blocks,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    WEIGHTS: tl.constexpr,
    PATCHES: tl.constexpr,
    WARPS: tl.constexpr,
    GROUP: tl.constexpr,
    TILES: tl.constexpr,
):
    SIZE: tl.constexpr = GROUP * (HEIGHT + 2) * (WIDTH + 2) * CHANNELS
    BYTES: tl.constexpr = TILES * PATCHES * WARPS * 8
    group, plane = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64) * BYTES
    x, y, bits = images + group * SIZE, scratch + group * SIZE, stopped + group * BYTES
    for done in tl.range(blocks, num_stages=1):
        block = blocks - 1 - done
        w, s = weight + block * (2 * WEIGHTS), bits + 2 * block * plane
        frozen_conv(x, y, w + WEIGHTS, w, s + plane, HEIGHT, WIDTH, CHANNELS, False, False, PATCHES, WARPS, TILES)
        # what comes out is the gradient of the block before, already behind its ReLU
        frozen_conv(y, x, w, w, s, HEIGHT, WIDTH, CHANNELS, False, True, PATCHES, WARPS, TILES)
