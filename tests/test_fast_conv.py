"""3x3 convolutions with TF32 products, and their weights' gradient, against float64; by Triton's interpreter else."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")
from smoothcert.fast import conv as fast
from smoothcert.fast.conv import conv3x3, weight_gradient

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ERROR = 2e-3 if DEVICE.type == "cuda" else 1e-5  # TF32 has 10 bits; the interpreter computes in float32
SHAPES = [(16, 3, 5, 6), (32, 2, 7, 4), (16, 1, 1, 1), (32, 5, 8, 8)]  # channels, images, height, width


def draw(*shape, seed=0):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE, memory_format=torch.channels_last if len(shape) == 4 else torch.contiguous_format)


def distance(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


@pytest.fixture
def small(monkeypatch):
    """Several programs, the last of which has pixels beyond the end."""
    monkeypatch.setattr(fast, "_TILES", {c: {"PATCHES": 8, "WARPS": 2} for c in (16, 32)})
    monkeypatch.setattr(fast, "_WEIGHTS", {c: {"PIXELS": 16, "WARPS": 2} for c in (16, 32)})
    monkeypatch.setattr(fast, "_SHARES", {16: 3, 32: 2})


@pytest.mark.parametrize("channels_images_sides", SHAPES)
@pytest.mark.parametrize(
    "used", [(), ("bias", "relu"), ("bias", "shortcut", "relu"), ("active",), ("shortcut", "active"), ("shortcut",)]
)
def test_convolution(channels_images_sides, used, small):
    channels, images, *sides = channels_images_sides
    x, weight = draw(images, channels, *sides), draw(channels, channels, 3, 3, seed=1)
    bias = draw(channels, seed=2) if "bias" in used else None
    shortcut = draw(images, channels, *sides, seed=3) if "shortcut" in used else None
    active = draw(images, channels, *sides, seed=4).relu() if "active" in used else None
    expected = F.conv2d(x.double(), weight.double(), None if bias is None else bias.double(), padding=1)
    expected = expected if shortcut is None else expected + shortcut
    expected = expected.relu() if "relu" in used else expected
    expected = expected if active is None else expected * (active > 0)
    assert distance(conv3x3(x, weight, bias, shortcut, "relu" in used, active), expected) < ERROR


@pytest.mark.parametrize("channels_images_sides", SHAPES)
def test_gradient_of_weights(channels_images_sides, small):
    channels, images, *sides = channels_images_sides
    x, gradient = draw(images, channels, *sides), draw(images, channels, *sides, seed=1)
    shape = channels, channels, 3, 3
    expected = torch.nn.grad.conv2d_weight(x.double(), shape, gradient.double(), padding=1)
    found = weight_gradient(gradient, x)
    assert distance(found, expected) < ERROR
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.cuda
@pytest.mark.parametrize(("channels", "side"), [(16, 32), (32, 16)])
def test_sums_are_as_good_as_those_of_rounded_factors(channels, side):
    """The tiles that training uses. Factors rounded to 10 bits give 3e-4; cut ones 8e-4, unless scaled."""
    x, gradient = draw(80, channels, side, side), draw(80, channels, side, side, seed=1)
    weight = draw(channels, channels, 3, 3, seed=2)
    assert distance(conv3x3(x, weight), F.conv2d(x.double(), weight.double(), padding=1)) < 4e-4
    expected = torch.nn.grad.conv2d_weight(x.double(), weight.shape, gradient.double(), padding=1)
    assert distance(weight_gradient(gradient, x), expected) < 4e-4
    assert torch.equal(weight_gradient(gradient, x), weight_gradient(gradient, x))


def test_not_a_number_is_not_hidden(small):
    x, weight = draw(1, 16, 4, 4), draw(16, 16, 3, 3, seed=1)
    x[0, 3, 0, 0] = float("nan")
    out = conv3x3(x, weight, relu=True)
    assert out[:, :, :2, :2].isnan().all()
    assert not out[:, :, 2:].isnan().any()
