"""When do two evaluations of a network agree? What decides a vote is compared, and nothing else.

Logits are compared as scores: each less the largest of its row, and cut where a class is out of the question, since it
is 10,000 times farther behind than the second class usually is. So a part that all classes share and the huge negative
numbers that mask a class do not hide how far apart the others are, whatever the scale of the logits.
"""

from __future__ import annotations

import math
from typing import TypeGuard

import torch
from torch import Tensor

from smoothcert.devices.memory import SMALLEST
from smoothcert.models.build import can_be_compared

# how far scores may be apart by rounding alone, in units of how much they vary between images
NEAR = {"float32": 0.01, "tf32": 0.1, "float16": 0.1, "bfloat16": 0.3}
_FAR = 1e4  # in units of how far the second class is usually behind
_ROUNDINGS = (
    1e4  # of the largest logit: scores that vary less than these are not told from rounding
)
_FINGERPRINT = 8


def synthetic_images(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Images of all contrasts under noise, the same for ever: networks are compared by their answers to them."""
    generator = torch.Generator("cpu").manual_seed(0)
    # not what the caller may have set as defaults
    base = torch.rand((SMALLEST, *shape), generator=generator, dtype=torch.float32, device="cpu")
    noise = torch.randn(base.shape, generator=generator, dtype=torch.float32, device="cpu") * 0.5
    contrast = torch.linspace(0, 1, SMALLEST, dtype=torch.float32, device="cpu").view(-1, 1, 1, 1)
    return (base.mul_(contrast).add_(noise) * 255).round().div(255).to(device)


def comparable(logits: object) -> TypeGuard[Tensor]:
    """Whether there are logits [b, classes] of at least two classes, and some of them are numbers."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        return False
    return can_be_compared(logits) and not bool(logits.isnan().any(1).all())


def distances(found: Tensor, expected: Tensor) -> Tensor:
    """How far scores are apart, [b, classes]; NaN in rows with NaN."""
    far = _far(expected)
    return (_scores(found, far) - _scores(expected, far)).abs()


def root_mean_square(values: Tensor, dim: int | None = None) -> Tensor:
    return values.square().mean(dim).sqrt()


def spread_of(logits: object) -> float:
    """How much scores vary from image to image, as a root mean square; infinite if there is nothing to compare."""
    if not comparable(logits):
        return math.inf
    rows = logits[~logits.isnan().any(1)]
    scores, top = _scores(rows, _far(rows)), rows.double().amax(1)
    rounding = torch.finfo(rows.dtype).eps if rows.is_floating_point() else 0.0
    size = float(top[top.isfinite()].abs().median()) if bool(top.isfinite().any()) else 0.0
    return max(
        float(root_mean_square(scores - scores.mean(0))), _ROUNDINGS * rounding * size, 1e-30
    )


def behaviour_of(logits: object) -> list[list[float]]:
    """Of the first rows: answer, largest logit, lead over the second, mean and spread of the scores, in five digits.

    Rounding differs between machines in later digits. Another forward with the same weights does in the first.
    """
    if not comparable(logits):
        return []
    found = []
    rows, far = logits[~logits.isnan().any(1)][:_FINGERPRINT], _far(logits)
    for row, scores in zip(rows, _scores(rows, far), strict=True):
        offered = scores[scores >= far / 2]
        lead = offered.sort(descending=True).values[:2].diff().abs().sum()
        values = (row.argmax(), row.max(), lead, offered.mean(), offered.std(correction=0))
        found.append([float(f"{float(value):.5g}") for value in values])
    return found


def _scores(logits: Tensor, far: Tensor) -> Tensor:
    values = logits.double()
    top = values.amax(1, keepdim=True)
    return torch.maximum(torch.where(values == top, 0.0, values - top), far)


def _far(logits: Tensor) -> Tensor:
    """The score at which a class is out of the question."""
    first, second = logits.double().topk(2).values.T
    lead = torch.where((first > second) & (first - second).isfinite(), first - second, torch.nan)
    return -_FAR * lead.nanmedian().nan_to_num(0.0)  # never waits for the device
