"""LeNet on tensor cores: three Triton kernels, each a few matrix products on windows of whole rows of pixels.

Library convolutions waste most of a tensor core on 1, 20 and 50 channels. Here a product's rows are windows of the
image and its columns several neighbouring outputs at once, with the filters written out (mostly zeros outside the
5x5 support), so that every product has sizes the hardware likes. Pooling is a maximum over products, and bias and ReLU
come after it, which is the same: both are monotone. The arithmetic of a row does not depend on the other rows.
"""

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

    A row is an 8x8 window (6 x 6 of them, 4 apart), a column one of 2x2 pooled outputs and of 32 channels (20 used);
    `weight` [4, 64, 128] has one matrix for each of the four positions that pooling compares.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    sample, window = row // 36, row % 36
    k = tl.arange(0, 64)
    corner = sample.to(tl.int64) * 784 + window // 6 * (4 * 28) + window % 6 * 4
    a = tl.load(x + corner[:, None] + (k // 8 * 28 + k % 8)[None, :], mask=(sample < samples)[:, None], other=0.0)
    n = tl.arange(0, 128)
    at = weight + k[:, None] * 128 + n[None, :]
    best = tl.dot(a, tl.load(at))
    for offset in tl.static_range(1, 4):
        best = tl.maximum(best, tl.dot(a, tl.load(at + offset * (64 * 128))))
    best = saturated(tl.maximum(best + tl.load(bias + n)[None, :], 0.0), out)
    place = sample.to(tl.int64) * 2880 + window // 6 * (2 * 12 * 20) + window % 6 * (2 * 20)
    pixel, channel = n // 32, n % 32
    shift = pixel // 2 * (12 * 20) + pixel % 2 * 20 + channel
    keep = (sample < samples)[:, None] & (channel < 20)[None, :]
    tl.store(out + place[:, None] + shift[None, :], best.to(out.dtype.element_ty), mask=keep)


@triton.jit(do_not_specialize=["samples"])
def conv2_pool(x, weight, bias, out, samples, M: tl.constexpr):
    """[12, 12, 20] -> ReLU, 2x2 max-pooled 5x5 convolution [4, 4, 64], of which 50 channels are used.

    A row is a pooled output (16 a sample). It needs 6 lines of 6 pixels; a line is 120 values next to each other.
    Columns are 64 channels times two neighbouring positions; `weight` [5, 128, 128] has a matrix a filter line.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    sample, pooled = row // 16, row % 16
    k, n = tl.arange(0, 128), tl.arange(0, 128)
    corner = sample.to(tl.int64) * 2880 + pooled // 4 * (2 * 12 * 20) + pooled % 4 * (2 * 20)
    at = x + corner[:, None] + k[None, :]
    inside = (sample < samples)[:, None] & (k < 120)[None, :]
    matrix = weight + k[:, None] * 128 + n[None, :]
    upper = tl.zeros([M, 128], tl.float32)
    lower = tl.zeros([M, 128], tl.float32)
    for line in tl.static_range(6):
        a = tl.load(at + line * 240, mask=inside, other=0.0)
        if line < 5:
            upper = tl.dot(a, tl.load(matrix + line * (128 * 128)), upper)
        if line > 0:
            lower = tl.dot(a, tl.load(matrix + (line - 1) * (128 * 128)), lower)
    best = tl.max(tl.reshape(tl.maximum(upper, lower), [M, 64, 2]), axis=2)
    channel = tl.arange(0, 64)
    best = saturated(tl.maximum(best + tl.load(bias + channel)[None, :], 0.0), out)
    place = out + row.to(tl.int64)[:, None] * 64 + channel[None, :]
    tl.store(place, best.to(out.dtype.element_ty), mask=(sample < samples)[:, None])


@triton.jit(do_not_specialize=["samples"])
def dense(x, weight1, bias1, weight2, bias2, logits, samples, M: tl.constexpr, N: tl.constexpr, CLASSES: tl.constexpr):
    """[1024] -> 512 with ReLU -> CLASSES logits: the hidden layer is never written."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    inside = (row < samples)[:, None]
    k, n, c = tl.arange(0, 64), tl.arange(0, N), tl.arange(0, CLASSES)
    result = tl.zeros([M, CLASSES], tl.float32) + tl.load(bias2 + c)[None, :]
    for part in range(512 // N):
        hidden = tl.zeros([M, N], tl.float32)
        for step in range(1024 // 64):
            a = tl.load(x + row.to(tl.int64)[:, None] * 1024 + (step * 64 + k)[None, :], mask=inside, other=0.0)
            b = tl.load(weight1 + (step * 64 + k)[:, None] * 512 + (part * N + n)[None, :])
            hidden = tl.dot(a, b, hidden)
        hidden = saturated(tl.maximum(hidden + tl.load(bias1 + part * N + n)[None, :], 0.0), x).to(x.dtype.element_ty)
        result = tl.dot(hidden, tl.load(weight2 + (part * N + n)[:, None] * CLASSES + c[None, :]), result)
    tl.store(logits + row.to(tl.int64)[:, None] * CLASSES + c[None, :], result, mask=inside)
