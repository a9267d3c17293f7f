"""From an adversarial image to one of 256 grey levels that is still inside the ball, and still nearly as far out."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from smoothcert.noise.streams import unit_range


def round_inside(adversarial: Tensor, image: Tensor, radius: float) -> Tensor:
    """The 8-bit image that stands for an adversarial one, both [C, H, W]: at most `radius` from the 8-bit original.

    It is the nearest one, if that lies inside the ball and is no shorter than the adversarial change. Otherwise values
    move level by level, first where a level gains most for its cost: it gains the change d that the attack asks for
    there, and the k-th level costs 2k - 1 of the squared length. This is the order in which round(s d) grows with s, so
    the largest s is searched for. In a large image, where an attack asks for less than half a level everywhere, the
    values with the largest changes move. Whole numbers decide what is inside the ball.
    """
    change = (adversarial - unit_range(image)).double() * 255
    start, wanted = image.long(), change.abs()
    most = torch.where(
        change > 0, 255 - start, torch.where(change < 0, start, 0)
    )  # levels to the end of the range

    def levels(s: float) -> Tensor:
        return torch.minimum((s * wanted).round(), most).long()

    inside = int(
        (255 * Fraction(radius)) ** 2
    )  # the largest squared length, in levels, of the ball
    budget = min(inside, max(_squared(levels(1.0)), int(wanted.square().sum())))
    low, high = 0.0, 1.0
    while _squared(levels(high)) <= budget < _squared(most):
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _squared(levels(middle)) <= budget else (low, middle)
    moved = _spend(levels(low).flatten(), wanted.flatten(), most.flatten(), budget)
    return (start + moved.view_as(start) * change.sign().long()).to(torch.uint8)


def _spend(levels: Tensor, wanted: Tensor, most: Tensor, budget: int) -> Tensor:
    """One more level for as many values as the budget still has room for: among equal changes, not for all."""
    while True:
        room, cost = budget - _squared(levels), 2 * levels + 1
        able = ((levels < most) & (cost <= room)).nonzero().flatten()
        if not len(able):
            return levels
        order = able[(wanted[able] / cost[able]).argsort(descending=True, stable=True)]
        levels[order[cost[order].cumsum(0) <= room]] += 1


def _squared(levels: Tensor) -> int:
    return int(levels.square().sum())
