"""Rounding to grey levels stays inside the ball and inside the range, and keeps the attack's length and direction."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.attacks.rounding import round_inside


def attacked(shape, radius, power, seed=0):
    """An 8-bit image, and the point of the sphere around it in a direction whose values are normal numbers ** power.

    What leaves the range is cut and the rest made longer again, so that the float attack has all of the radius.
    """
    generator = torch.Generator().manual_seed(seed)
    image = torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    x, d = image.double() / 255, torch.randn(shape, generator=generator, dtype=torch.float64)
    d = d.sign() * d.abs() ** power
    for _ in range(50):
        d = (x + d * (radius / d.norm())).clamp(0, 1) - x
    return image, x + d


def squared_levels(found, image):
    return int((found.long() - image.long()).square().sum())


@pytest.mark.parametrize("power", [0, 1, 3])
@pytest.mark.parametrize("radius", [0.1, 0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 224, 224)])
def test_the_length_is_kept_and_the_ball_is_not_left(shape, radius, power):
    image, adversarial = attacked(shape, radius, power)
    found = round_inside(adversarial, image, radius)
    assert found.dtype == torch.uint8
    assert (255 * Fraction(radius)) ** 2 * Fraction(98, 100) ** 2 <= squared_levels(found, image)
    assert squared_levels(found, image) <= (255 * Fraction(radius)) ** 2
    change, asked = found.double() - image.double(), adversarial * 255 - image.double()
    assert bool((change * asked >= 0).all())  # never against the attack


@given(
    st.lists(st.tuples(st.integers(0, 255), st.floats(0, 1, width=32)), min_size=1, max_size=40),
    st.floats(0.01, 4.0),
)
def test_whatever_the_attack_found_the_answer_is_inside_the_ball_and_the_range(pixels, radius):
    image = torch.tensor([[[level for level, _ in pixels]]], dtype=torch.uint8)
    adversarial = torch.tensor([[[value for _, value in pixels]]])
    asked = (adversarial - image / 255).double() * 255
    found = round_inside(adversarial, image, radius)
    change = found.double() - image.double()
    assert squared_levels(found, image) <= (255 * Fraction(radius)) ** 2
    assert bool((change * asked >= 0).all())
    nearest = asked.round()
    if (
        asked.norm() <= nearest.norm()
        and int(nearest.square().sum()) <= (255 * Fraction(radius)) ** 2
    ):
        assert torch.equal(change, nearest)


def test_a_large_image_moves_where_the_attack_asks_most():
    """63 levels of length for 150,528 values: 3969 of them move by one level, the others stay."""
    image = torch.full((3, 224, 224), 128, dtype=torch.uint8)
    order = (
        torch.randperm(image.numel(), generator=torch.Generator().manual_seed(0))
        .double()
        .view_as(image)
    )
    change = order / order.norm() * (63.0 / 255)
    found = round_inside(image.double() / 255 + change, image, 63.0 / 255)
    moved = (found != image).flatten()
    assert int(moved.sum()) in (3968, 3969)
    assert float(order.flatten()[moved].min()) >= float(order.flatten()[~moved].max()) - 1


def test_an_image_that_no_attack_moved_stays():
    image = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    assert torch.equal(round_inside(image / 255, image, 0.5), image)
