"""What an attack step does besides the network, each in one kernel where PyTorch takes ten to twenty small ones.

Formulas are those of objectives.py, ascent.py and constraints.py. NaN passes through, so that a diverged training is
noticed.
"""

# mypy: ignore-errors
# Triton's language only looks like Python.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def clamped(value, low):
    return tl.maximum(value, low, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def scores(at, inside, each):
    """Logits, and -inf beyond the classes. A row past the end is all zeros, so that no NaN is made there."""
    return tl.where(each, tl.load(at, mask=inside & each, other=0.0), float("-inf"))


@triton.jit
def softmax(z):
    """Of each row, with the logarithm of the sum of exponentials."""
    top = tl.max(z, axis=1)
    e = tl.exp(z - top[:, None])
    total = tl.sum(e, axis=1)
    return e / total[:, None], top + tl.log(total)


@triton.jit(do_not_specialize=["samples"])
def smoothed_nll(
    logits,  # [NOISES, samples, CLASSES]
    label,  # [samples] int64
    loss,  # [samples]
    gradient,  # of each sample's own loss, like logits
    samples,
    beta,
    NOISES: tl.constexpr,
    CLASSES: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    b, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside, each = b < samples, (c < CLASSES)[None, :]
    y = tl.load(label + b, mask=inside, other=0)
    # PyTorch stops at labels that are no classes; a kernel cannot, but NaN is noticed
    right = tl.where((y >= 0) & (y < CLASSES), 1.0, float("nan"))
    hit = c[None, :] == y[:, None]
    at = b.to(tl.int64)[:, None] * CLASSES + c[None, :]
    stride = samples.to(tl.int64) * CLASSES
    mean = tl.zeros([ROWS], tl.float32)
    nll = tl.zeros([ROWS], tl.float32)
    for i in range(NOISES):
        z = scores(logits + i * stride + at, inside[:, None], each)
        p, log_sum = softmax(beta * z)
        mean += tl.sum(tl.where(hit, p, 0.0), axis=1) / NOISES
        nll = log_sum - beta * tl.sum(tl.where(hit, z, 0.0), axis=1)
    if NOISES > 1:
        nll = -tl.log(clamped(mean, 1e-20))
    tl.store(loss + b, right * nll, mask=inside)
    for i in range(NOISES):
        z = scores(logits + i * stride + at, inside[:, None], each)
        p, _ = softmax(beta * z)
        share = right
        if NOISES > 1:  # softmax_y / (m mean); nothing flows through the clamp
            flows = tl.where(mean < 1e-20, 0.0, 1.0 / clamped(NOISES * mean, 1e-20))
            share *= flows * tl.sum(tl.where(hit, p, 0.0), axis=1)
        tl.store(
            gradient + i * stride + at,
            (beta * share)[:, None] * (p - hit.to(tl.float32)),
            mask=inside[:, None] & each,
        )


@triton.jit(do_not_specialize=["rows", "samples"])
def divergence(
    logits,  # [rows, CLASSES]
    target,  # [samples, CLASSES]; row b has the target of sample b % samples
    loss,  # [rows]
    gradient,  # like logits
    rows,
    samples,
    CLASSES: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    b, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside, each = b < rows, (c < CLASSES)[None, :]
    real = inside[:, None] & each
    at = b.to(tl.int64)[:, None] * CLASSES + c[None, :]
    z = scores(logits + at, inside[:, None], each)
    t = tl.load(
        target + (b % samples).to(tl.int64)[:, None] * CLASSES + c[None, :], mask=real, other=0.0
    )
    p, log_sum = softmax(z)
    log_target = tl.log(tl.where(t == 0.0, 1.0, t))  # 0 log 0 is 0
    log_p = tl.where(each, z, 0.0) - log_sum[:, None]
    tl.store(loss + b, tl.sum(t * (log_target - log_p), axis=1), mask=inside)
    tl.store(gradient + at, p * tl.sum(t, axis=1)[:, None] - t, mask=real)


@triton.jit
def step_up(
    point,  # [samples, VALUES], as all that follow
    gradient,
    random,
    centre,
    out,
    step,
    offset,
    radius,
    VALUES: tl.constexpr,
    RANDOM: tl.constexpr,  # SmoothAdv's rule for directions instead of the one with an offset
    BALL: tl.constexpr,
    CLAMP: tl.constexpr,  # "first", "last" or "never"
    MOMENTS: tl.constexpr,  # give back the centre's mean and root mean square
    BLOCK: tl.constexpr,
):
    """One step of `ascend` for one sample."""
    i = tl.arange(0, BLOCK)
    inside = i < VALUES
    at = tl.program_id(0).to(tl.int64) * VALUES + i
    g = tl.load(gradient + at, mask=inside, other=0.0)
    length = tl.sqrt(tl.sum(g * g))
    if RANDOM:
        chance = tl.load(random + at, mask=inside, other=0.0)
        direction = tl.where(length == 0.0, chance, g / tl.where(length == 0.0, 1.0, length))
    else:
        direction = g / (length + offset)
    p = tl.load(point + at, mask=inside, other=0.0) + step * direction
    c = tl.load(centre + at, mask=inside, other=0.0)
    if CLAMP == "first":
        p = tl.clamp(p, 0.0, 1.0, propagate_nan=tl.PropagateNan.ALL)
    if BALL:
        d = tl.where(inside, p - c, 0.0)
        shrink = radius / clamped(tl.sqrt(tl.sum(d * d)), 1e-30)
        p = c + d * tl.minimum(shrink, 1.0, propagate_nan=tl.PropagateNan.ALL)
    if CLAMP == "last":
        p = tl.clamp(p, 0.0, 1.0, propagate_nan=tl.PropagateNan.ALL)
    if MOMENTS:
        p = tl.where(inside, p, 0.0)
        ratio = tl.sqrt(tl.sum(c * c) / VALUES) / tl.sqrt(tl.sum(p * p) / VALUES)
        p = tl.sum(c) / VALUES + ratio * (p - tl.sum(p) / VALUES)
    tl.store(out + at, p, mask=inside)
