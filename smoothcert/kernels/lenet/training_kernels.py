"""LeNet's two convolutions for training, on tensor cores: forward, gradients of the input, gradients of the filters.

The products are those of sampling_kernels.py, with float32 in memory: windows of whole rows of pixels times filters
that are written out for several outputs at once. Two units recur:

    group   2x2 neighbouring outputs of layer one (after pooling), 36 a sample. It sees an 8x8 window of the image,
            windows being 4 apart, and has 80 values: two lines of 40 that lie next to each other in [12, 12, 20].
            80 is no power of two, so that its products come in parts of 64 and 16.
    pooled  an output of layer two (after pooling), 16 a sample. It sees 6 lines of 120 values (6 pixels of 20
            channels), windows being 2 pixels apart.

Pooling keeps an int8 code of each output: which of its four positions won, the first of equals in scan order as in
PyTorch, or 4 where ReLU gives 0. The gradient before pooling is then `where(code == position, gradient, 0)`, made
where it is needed and never written. It times the filters is a gradient of whole windows; windows overlap, and
whoever reads them adds them up, always in one order. No atomics: the same numbers give the same bits.

Matrices are stored with the summed-over index last, as tensor cores read TF32.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def pack(filters1, filters2, index, out, BLOCK: tl.constexpr):
    """The matrices of all products; `index` counts through filters1 [500], then filters2 [25000], then means 0."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.load(index + at)
    first = tl.load(filters1 + i, mask=i < 500, other=0.0)
    second = tl.load(filters2 + i - 500, mask=(i >= 500) & (i < 25500), other=0.0)
    tl.store(out + at, first + second)


@triton.jit
def group_values(sample, group, k):
    """Where value k of 80 of a group lies in [samples, 12, 12, 20]."""
    corner = sample.to(tl.int64) * 2880 + group // 6 * 480 + group % 6 * 40
    return corner[:, None] + (k // 40 * 240 + k % 40)[None, :]


@triton.jit
def keep_larger(best, winner, value, position):
    """The first of equal values stays; not-a-number wins, as in PyTorch, so that no divergence hides."""
    better = (value > best) | (value != value)
    return tl.where(better, value, best), tl.where(better, position, winner)


@triton.jit
def store_pooled(best, winner, bias, out, code, place, inside):
    """Bias and ReLU after pooling, which is the same as before it: both are monotone."""
    best = best + bias[None, :]
    tl.store(out + place, tl.where(best <= 0.0, 0.0, best), mask=inside)
    tl.store(code + place, tl.where(best <= 0.0, 4, winner).to(tl.int8), mask=inside)


@triton.jit
def conv1_part(
    window,
    weight,
    bias,
    out,
    code,
    sample,
    group,
    inside,
    M: tl.constexpr,
    START: tl.constexpr,
    N: tl.constexpr,
    PRECISION: tl.constexpr,
):
    k, n = tl.arange(0, 64), START + tl.arange(0, N)
    at = weight + k[:, None] + n[None, :] * 64
    best = tl.full([M, N], float("-inf"), tl.float32)
    winner = tl.zeros([M, N], tl.int32)
    for position in range(4):
        value = tl.dot(window, tl.load(at + position * 5120), input_precision=PRECISION)
        best, winner = keep_larger(best, winner, value, position)
    place = group_values(sample, group, n)
    store_pooled(best, winner, tl.load(bias + n % 20), out, code, place, inside[:, None])


@triton.jit(do_not_specialize=["samples"])
def conv1_pool(x, weight, bias, out, code, samples, M: tl.constexpr, PRECISION: tl.constexpr):
    """x [28, 28] -> ReLU, 2x2 max-pooled 5x5 convolution [12, 12, 20], and codes.

    A row is a group; `weight` [4, 80, 64] has a matrix for each of the positions that pooling compares.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    sample, group = row // 36, row % 36
    inside = sample < samples
    k = tl.arange(0, 64)
    corner = sample.to(tl.int64) * 784 + group // 6 * 112 + group % 6 * 4
    window = tl.load(
        x + corner[:, None] + (k // 8 * 28 + k % 8)[None, :], mask=inside[:, None], other=0.0
    )
    conv1_part(window, weight, bias, out, code, sample, group, inside, M, 0, 64, PRECISION)
    conv1_part(window, weight, bias, out, code, sample, group, inside, M, 64, 16, PRECISION)


@triton.jit(do_not_specialize=["samples"])
def conv2_pool(
    a, weight, bias, h, code, samples, M: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr
):
    """a [12, 12, 20] -> ReLU, 2x2 max-pooled 5x5 convolution [50, 4, 4], and codes.

    A row is a pooled output, a column one of 32 channels and one of two neighbouring positions. A filter line, of
    which `weight` [5, 128, 128] has a matrix each, meets two lines of the window: one for each line of positions.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    half = tl.program_id(1)
    sample, pooled = row // 16, row % 16
    k, n = tl.arange(0, K), half * 64 + tl.arange(0, 64)
    corner = sample.to(tl.int64) * 2880 + pooled // 4 * 480 + pooled % 4 * 40
    upper = tl.zeros([M, 64], tl.float32)
    lower = tl.zeros([M, 64], tl.float32)
    STEPS: tl.constexpr = 128 // K
    for step in range(5 * STEPS):
        line, part = step // STEPS, step % STEPS * K + k
        at = a + corner[:, None] + (line * 240 + part)[None, :]
        inside = (sample < samples)[:, None] & (part < 120)[None, :]
        matrix = tl.load(weight + line * 16384 + part[:, None] + n[None, :] * 128)
        upper = tl.dot(
            tl.load(at, mask=inside, other=0.0), matrix, upper, input_precision=PRECISION
        )
        lower = tl.dot(
            tl.load(at + 240, mask=inside, other=0.0), matrix, lower, input_precision=PRECISION
        )
    best, second = tl.split(tl.reshape(upper, [M, 32, 2]))
    third, fourth = tl.split(tl.reshape(lower, [M, 32, 2]))
    best, winner = keep_larger(best, tl.zeros([M, 32], tl.int32), second, 1)
    best, winner = keep_larger(best, winner, third, 2)
    best, winner = keep_larger(best, winner, fourth, 3)
    channel = half * 32 + tl.arange(0, 32)
    place = sample.to(tl.int64)[:, None] * 800 + channel[None, :] * 16 + pooled[:, None]
    inside = (sample < samples)[:, None] & (channel < 50)[None, :]
    store_pooled(
        best, winner, tl.load(bias + channel, mask=channel < 50, other=0.0), h, code, place, inside
    )


@triton.jit(do_not_specialize=["samples"])
def conv2_back(grad, code, weight, out, samples, M: tl.constexpr, PRECISION: tl.constexpr):
    """Gradient of h [50, 4, 4] -> gradient of the windows of layer two [16, 6, 120].

    A row is a pooled output; a program makes one line of its window, which filter line (line - position's line) of
    `weight` [5, 2, 128, 64] made: none for the lower positions at the top, for the upper ones at the bottom.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    line = tl.program_id(1)
    sample, pooled = row // 16, row % 16
    k, n = tl.arange(0, 64), tl.arange(0, 128)
    place = sample.to(tl.int64)[:, None] * 800 + k[None, :] * 16 + pooled[:, None]
    inside = (sample < samples)[:, None] & (k < 50)[None, :]
    g = tl.load(grad + place, mask=inside, other=0.0)
    winner = tl.load(code + place, mask=inside, other=4)
    total = tl.zeros([M, 128], tl.float32)
    for position in range(tl.where(line == 5, 2, 0), tl.where(line == 0, 2, 4)):
        matrix = ((line - position // 2) * 2 + position % 2) * 8192
        b = tl.load(weight + matrix + k[:, None] + n[None, :] * 64)
        total = tl.dot(tl.where(winner == position, g, 0.0), b, total, input_precision=PRECISION)
    at = out + row.to(tl.int64)[:, None] * 720 + line * 120 + n[None, :]
    tl.store(at, total, mask=(sample < samples)[:, None] & (n < 120)[None, :])


@triton.jit
def add_windows2(windows, sample, group, inside, k, M: tl.constexpr, N: tl.constexpr):
    """Gradient [M, N] of values k of groups: each lies in up to 3x3 windows of layer two."""
    total = tl.zeros([M, N], tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            line, pixel = group // 6 - i, group % 6 - j
            there = inside & (line >= 0) & (line < 4) & (pixel >= 0) & (pixel < 4)
            corner = (sample.to(tl.int64) * 16 + line * 4 + pixel) * 720 + (i * 240 + j * 40)
            at = windows + corner[:, None] + (k // 40 * 120 + k % 40)[None, :]
            total += tl.load(at, mask=there[:, None], other=0.0)
    return total


@triton.jit(do_not_specialize=["samples"])
def conv1_back(windows, code, weight, out, samples, M: tl.constexpr, PRECISION: tl.constexpr):
    """Gradient of the windows of layer two -> gradient of the windows of layer one [36, 8 * 8].

    A row is a group; `weight` [4, 64, 80] has a matrix for each position of pooling.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    sample, group = row // 36, row % 36
    inside = sample < samples
    k, rest, n = tl.arange(0, 64), 64 + tl.arange(0, 16), tl.arange(0, 64)
    g = add_windows2(windows, sample, group, inside, k, M, 64)
    g_rest = add_windows2(windows, sample, group, inside, rest, M, 16)
    winner = tl.load(code + group_values(sample, group, k), mask=inside[:, None], other=4)
    winner_rest = tl.load(code + group_values(sample, group, rest), mask=inside[:, None], other=4)
    total = tl.zeros([M, 64], tl.float32)
    for position in range(4):
        at = weight + position * 5120 + n[None, :] * 80
        b = tl.load(at + k[:, None])
        total = tl.dot(tl.where(winner == position, g, 0.0), b, total, input_precision=PRECISION)
        b = tl.load(at + rest[:, None])
        total = tl.dot(
            tl.where(winner_rest == position, g_rest, 0.0), b, total, input_precision=PRECISION
        )
    tl.store(out + row.to(tl.int64)[:, None] * 64 + n[None, :], total, mask=inside[:, None])


@triton.jit
def add_windows1(windows, out):
    """Gradient of the image [28, 28] of a sample: each pixel lies in up to 2x2 windows of layer one."""
    sample = tl.program_id(0).to(tl.int64)
    pixel = tl.arange(0, 1024)
    y, x = pixel // 28, pixel % 28
    total = tl.zeros([1024], tl.float32)
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            line, column = y // 4 - i, x // 4 - j
            there = (pixel < 784) & (line >= 0) & (line < 6) & (column >= 0) & (column < 6)
            at = (line * 6 + column) * 64 + (y % 4 + 4 * i) * 8 + x % 4 + 4 * j
            total += tl.load(windows + sample * 2304 + at, mask=there, other=0.0)
    tl.store(out + sample * 784 + pixel, total, mask=pixel < 784)


@triton.jit(do_not_specialize=["samples"])
def conv2_weights(grad, code, a, out, bias, samples, R: tl.constexpr, PRECISION: tl.constexpr):
    """Gradients of filters two, written out for windows [5 lines, 2 neighbours, 64, 128], and of bias two [10, 64].

    A program has one of these ten and every so many-th part of R pooled outputs; the sum over programs is the
    caller's. Each neighbour has its share of the bias, five times over.
    """
    line, right = tl.program_id(0) // 2, tl.program_id(0) % 2
    channel, n = tl.arange(0, 64), tl.arange(0, 128)
    total = tl.zeros([64, 128], tl.float32)
    shift = tl.zeros([64, R], tl.float32)
    for part in range(tl.program_id(1), tl.cdiv(samples * 16, R), tl.num_programs(1)):
        row = part * R + tl.arange(0, R)
        sample, pooled = row // 16, row % 16
        place = (sample.to(tl.int64) * 800 + pooled)[None, :] + channel[:, None] * 16
        inside = (sample < samples)[None, :] & (channel < 50)[:, None]
        g = tl.load(grad + place, mask=inside, other=0.0)
        winner = tl.load(code + place, mask=inside, other=4)
        upper, lower = tl.where(winner == right, g, 0.0), tl.where(winner == 2 + right, g, 0.0)
        corner = sample.to(tl.int64) * 2880 + pooled // 4 * 480 + pooled % 4 * 40
        at = a + corner[:, None] + (line * 240 + n)[None, :]
        seen = (sample < samples)[:, None] & (n < 120)[None, :]
        total = tl.dot(upper, tl.load(at, mask=seen, other=0.0), total, input_precision=PRECISION)
        total = tl.dot(
            lower, tl.load(at + 240, mask=seen, other=0.0), total, input_precision=PRECISION
        )
        shift += upper + lower
    program = tl.program_id(1) * 10 + tl.program_id(0)
    tl.store(out + program * 8192 + channel[:, None] * 128 + n[None, :], total)
    tl.store(bias + program * 64 + channel, tl.sum(shift, axis=1))


@triton.jit(do_not_specialize=["samples"])
def conv1_weights(x, windows, code, out, bias, samples, R: tl.constexpr, PRECISION: tl.constexpr):
    """Gradients of filters one, written out for windows [4 positions, 8 * 8 pixels, 80], and of bias one [4, 80].

    A program has one position and every so many-th part of R groups; the sum over programs is the caller's.
    """
    position = tl.program_id(0)
    pixel, n, rest = tl.arange(0, 64), tl.arange(0, 64), 64 + tl.arange(0, 16)
    total = tl.zeros([64, 64], tl.float32)
    total_rest = tl.zeros([64, 16], tl.float32)
    shift = tl.zeros([R, 64], tl.float32)
    shift_rest = tl.zeros([R, 16], tl.float32)
    for part in range(tl.program_id(1), tl.cdiv(samples * 36, R), tl.num_programs(1)):
        row = part * R + tl.arange(0, R)
        sample, group = row // 36, row % 36
        inside = sample < samples
        corner = sample.to(tl.int64) * 784 + group // 6 * 112 + group % 6 * 4
        window = tl.load(
            x + corner[None, :] + (pixel // 8 * 28 + pixel % 8)[:, None],
            mask=inside[None, :],
            other=0.0,
        )
        winner = tl.load(code + group_values(sample, group, n), mask=inside[:, None], other=4)
        winner_rest = tl.load(
            code + group_values(sample, group, rest), mask=inside[:, None], other=4
        )
        g = tl.where(
            winner == position, add_windows2(windows, sample, group, inside, n, R, 64), 0.0
        )
        g_rest = tl.where(
            winner_rest == position, add_windows2(windows, sample, group, inside, rest, R, 16), 0.0
        )
        total = tl.dot(window, g, total, input_precision=PRECISION)
        total_rest = tl.dot(window, g_rest, total_rest, input_precision=PRECISION)
        shift += g
        shift_rest += g_rest
    program = tl.program_id(1) * 4 + position
    at = out + program * 5120 + pixel[:, None] * 80
    tl.store(at + n[None, :], total)
    tl.store(at + rest[None, :], total_rest)
    tl.store(bias + program * 80 + n, tl.sum(shift, axis=0))
    tl.store(bias + program * 80 + rest, tl.sum(shift_rest, axis=0))
