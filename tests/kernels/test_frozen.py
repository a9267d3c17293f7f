"""All blocks of a stage in one kernel against float64; without a GPU by Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")
from smoothcert.kernels.cifar_resnet.frozen import fits, frozen_stage, weight_and_bias_places

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# the interpreter multiplies the bits of bfloat16, not their values
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
ERROR = 0.02 if DEVICE.type == "cuda" else 0.003
SHAPES = [(3, 16, 6, 8), (2, 32, 4, 6), (1, 32, 5, 3), (3, 64, 8, 8), (1, 64, 2, 2)]  # images, channels, height, width


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, HALF)


def layers(channels, count):
    """Weights [count, channels, channels, 3, 3] that keep values at their size, and biases."""
    return draw(count, channels, channels, 3, 3, seed=1) / (9 * channels) ** 0.5, 0.1 * draw(count, channels, seed=2)


def in_order(weights, biases):
    """As the kernels read them."""
    weight, bias = (places.to(DEVICE) for places in weight_and_bias_places(weights.shape[1]))
    plain = F.pad(weights.flatten(1), (1, 0))
    mirrored = F.pad(weights.flip(3, 4).transpose(1, 2).flatten(1), (1, 0))
    return plain[:, weight], mirrored[:, weight], biases.float()[:, bias - 1]


def plainly(x, weights, biases):
    for k in range(0, len(weights), 2):
        middle = F.conv2d(x, weights[k], biases[k], padding=1).relu()
        x = (x + F.conv2d(middle, weights[k + 1], biases[k + 1], padding=1)).relu()
    return x


def distance(found, expected):
    return float((found.double() - expected).detach().norm() / expected.detach().norm())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("blocks", [1, 3])
def test_values_and_gradients(shape, blocks):
    weights, biases = layers(shape[1], 2 * blocks)
    x = draw(*shape).contiguous(memory_format=torch.channels_last).requires_grad_()
    exact = x.detach().cpu().double().requires_grad_()
    out = frozen_stage(x, *in_order(weights, biases))
    expected = plainly(exact, weights.cpu().double(), biases.cpu().double())
    assert distance(out.cpu(), expected) < ERROR
    gradient = draw(*shape, seed=3)
    (found,) = torch.autograd.grad(out, x, gradient)
    (wanted,) = torch.autograd.grad(expected, exact, gradient.cpu().double())
    assert distance(found.cpu(), wanted) < 10 * ERROR  # rounding decides what a ReLU does to values near zero
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_not_a_number_is_not_hidden():
    weights, biases = layers(32, 2)
    x = draw(1, 32, 4, 4)
    x[0, 5, 1, 1] = float("nan")
    x.requires_grad_()
    out = frozen_stage(x, *in_order(weights, biases))
    assert out.isnan().any()
    assert torch.autograd.grad(out, x, torch.full_like(out, float("nan")))[0].isnan().all()


@pytest.mark.parametrize(
    ("images", "dtype", "expected"),
    [
        ((2, 3, 8, 8), torch.bfloat16, True),
        ((2, 3, 8, 8), torch.float32, False),
        ((2, 3, 8, 7), torch.bfloat16, False),  # two pixels are computed at a time
        ((0, 3, 8, 8), torch.bfloat16, False),
    ],
)
def test_what_it_takes(images, dtype, expected):
    assert fits(torch.zeros(images, dtype=dtype)) is expected
