"""LeNet on tensor cores: three Triton kernels, each a few matrix products on windows of whole rows of pixels.

Library convolutions waste most of a tensor core on 1, 20 and 50 channels. Here a product's rows are windows of the
image and its columns several neighbouring outputs at once, with the filters written out (mostly zeros outside the
5x5 support), so that every product has sizes the hardware likes. Pooling is a maximum over products, and bias and ReLU
come after it, which is the same: both are monotone. The arithmetic of a row does not depend on the other rows.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def saturated(value, like):
    """At most the largest float16: an infinity times one of the filters' zeros would be NaN."""
    return tl.minimum(value, 65504.0) if like.dtype.element_ty == tl.float16 else value


@triton.jit(do_not_specialize=["samples"])
def conv1_pool(x, weight, bias, out, samples, M: tl.constexpr):
    """[28, 28] -> ReLU, 2x2 max-pooled 5x5 convolution [12, 12, 20].

    A row is 3 neighbouring pooled outputs (48 a sample), whose 60 values lie next to each other. It needs 6 lines of 10
    pixels. A column is one of four positions that pooling compares and one of these values: `weight` [64, 4 * 64].
    """
    k, n, value = tl.arange(0, 64), tl.arange(0, 256), tl.arange(0, 64)
    matrix = tl.load(weight + k[:, None] * 256 + n[None, :])
    shift = tl.load(bias + value)[None, :]
    pixel = (k // 10 * 28 + k % 10)[None, :]
    for tile in range(tl.program_id(0), tl.cdiv(samples * 48, M), tl.num_programs(0)):
        row = tile * M + tl.arange(0, M)
        sample, window = row // 48, row % 48
        inside = (sample < samples)[:, None]
        corner = sample.to(tl.int64) * 784 + window // 4 * (2 * 28) + window % 4 * 6
        a = tl.load(x + corner[:, None] + pixel, mask=inside & (k < 60)[None, :], other=0.0)
        best = tl.max(tl.reshape(tl.dot(a, matrix), [M, 4, 64]), axis=1)
        best = saturated(tl.maximum(best + shift, 0.0), out)
        place = out + row.to(tl.int64)[:, None] * 60 + value[None, :]
        tl.store(place, best.to(out.dtype.element_ty), mask=inside & (value < 60)[None, :])


@triton.jit
def pooled_line(x, row, line: tl.constexpr, samples):
    """A line of the 6 that pooled outputs of layer two need: 6 pixels, which are 120 values next to each other."""
    k = tl.arange(0, 128)
    corner = row.to(tl.int64) // 16 * 2880 + row % 16 // 4 * (2 * 12 * 20) + row % 4 * (2 * 20)
    inside = (row < samples * 16)[:, None] & (k < 120)[None, :]
    return tl.load(x + corner[:, None] + (line * 240 + k)[None, :], mask=inside, other=0.0)


@triton.jit(do_not_specialize=["samples"])
def conv2_pool(x, weight, bias, out, samples, M: tl.constexpr, KEEP: tl.constexpr):
    """[12, 12, 20] -> ReLU, 2x2 max-pooled 5x5 convolution [4, 4, 64], of which 50 channels are used.

    A row is a pooled output (16 a sample). Columns are 64 channels times two neighbouring positions; `weight`
    [5, 128, 128] has a matrix a filter line. With KEEP all five stay in shared memory (160 KiB).
    """
    k, n, channel = tl.arange(0, 128), tl.arange(0, 128), tl.arange(0, 64)
    at = weight + k[:, None] * 128 + n[None, :]
    if KEEP:
        kept = (
            tl.load(at),
            tl.load(at + 128 * 128),
            tl.load(at + 2 * 128 * 128),
            tl.load(at + 3 * 128 * 128),
            tl.load(at + 4 * 128 * 128),
        )
    shift = tl.load(bias + channel)[None, :]
    row = tl.program_id(0) * M + tl.arange(0, M)
    a = pooled_line(x, row, 0, samples)
    for _ in range(tl.program_id(0), tl.cdiv(samples * 16, M), tl.num_programs(0)):
        after = row + tl.num_programs(0) * M
        upper = tl.zeros([M, 128], tl.float32)
        lower = tl.zeros([M, 128], tl.float32)
        for line in tl.static_range(6):
            # the next line is on its way while this one is multiplied
            later = (
                pooled_line(x, row, line + 1, samples)
                if line < 5
                else pooled_line(x, after, 0, samples)
            )
            if line < 5:
                upper = tl.dot(a, kept[line] if KEEP else tl.load(at + line * (128 * 128)), upper)
            if line > 0:
                lower = tl.dot(
                    a, kept[line - 1] if KEEP else tl.load(at + (line - 1) * (128 * 128)), lower
                )
            a = later
        best = tl.max(tl.reshape(tl.maximum(upper, lower), [M, 64, 2]), axis=2)
        best = saturated(tl.maximum(best + shift, 0.0), out)
        place = out + row.to(tl.int64)[:, None] * 64 + channel[None, :]
        tl.store(place, best.to(out.dtype.element_ty), mask=(row < samples * 16)[:, None])
        row = after


@triton.jit(do_not_specialize=["samples"])
def dense(
    x,
    weight1,
    bias1,
    weight2,
    bias2,
    logits,
    samples,
    M: tl.constexpr,
    N: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """[1024] -> 512 with ReLU -> CLASSES logits: the hidden layer is never written."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    inside = (row < samples)[:, None]
    k, n, c = tl.arange(0, 64), tl.arange(0, N), tl.arange(0, CLASSES)
    result = tl.zeros([M, CLASSES], tl.float32) + tl.load(bias2 + c)[None, :]
    for part in range(512 // N):
        hidden = tl.zeros([M, N], tl.float32)
        for step in range(1024 // 64):
            a = tl.load(
                x + row.to(tl.int64)[:, None] * 1024 + (step * 64 + k)[None, :],
                mask=inside,
                other=0.0,
            )
            b = tl.load(weight1 + (step * 64 + k)[:, None] * 512 + (part * N + n)[None, :])
            hidden = tl.dot(a, b, hidden)
        hidden = saturated(tl.maximum(hidden + tl.load(bias1 + part * N + n)[None, :], 0.0), x).to(
            x.dtype.element_ty
        )
        result = tl.dot(
            hidden, tl.load(weight2 + (part * N + n)[:, None] * CLASSES + c[None, :]), result
        )
    tl.store(logits + row.to(tl.int64)[:, None] * CLASSES + c[None, :], result, mask=inside)
