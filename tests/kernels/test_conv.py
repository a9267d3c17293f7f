"""3x3 convolutions and their weights' gradient against float64; without a GPU by Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")
from smoothcert.kernels.cifar_resnet import conv as fast
from smoothcert.kernels.cifar_resnet import norm
from smoothcert.kernels.cifar_resnet.conv import (
    Tile,
    WeightGradients,
    arrangement,
    conv3x3,
    conv_with_moments,
    conv_with_sums,
)
from smoothcert.kernels.cifar_resnet.norm import Normed, added_up

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# the interpreter multiplies the bits of bfloat16, not their values, and float32 as such instead of TF32
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
ERROR = {torch.float32: 2e-3 if DEVICE.type == "cuda" else 1e-5, HALF: 5e-3}
SHAPES = [
    (16, 3, 5, 6),
    (32, 2, 7, 4),
    (16, 1, 1, 1),
    (32, 3, 4, 8),
    (64, 1, 2, 3),
]  # channels, images, height, width
BOTH = pytest.mark.parametrize("dtype", [torch.float32, HALF])
EACH_SHAPE = pytest.mark.parametrize(
    ("channels_images_sides", "dtype"),
    [*((shape, torch.float32) for shape in SHAPES), (SHAPES[1], HALF)],
)


def draw(*shape, seed=0, dtype=torch.float32):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.to(
        DEVICE,
        dtype,
        memory_format=torch.channels_last if len(shape) == 4 else torch.contiguous_format,
    )


def arranged(weight):
    flat = weight.permute(0, 2, 3, 1).reshape(-1)
    return flat[arrangement(len(weight), weight.dtype).to(weight.device)]


def distance(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


def weight_gradient(gradient, x):
    gradients = WeightGradients(x, 1)
    gradients.add(0, gradient, x)
    return gradients.all()[0]


def together(parts):
    """Count, mean and variance of the whole, in float64."""
    count, mean, squares = parts.double().unbind(1)
    rows = count.sum(0)
    centre = (count * mean).sum(0) / rows
    return rows, centre, (squares + count * (mean - centre) ** 2).sum(0) / rows


@pytest.fixture(params=["small", pytest.param("as used", marks=pytest.mark.cuda)])
def tiles(request, monkeypatch):
    """Small ones make several programs here, the last of which has pixels beyond the end."""
    if request.param == "small":
        monkeypatch.setattr(fast, "_TILES", dict.fromkeys((16, 32, 64), Tile(1, 2)))
        monkeypatch.setattr(fast, "_WEIGHT_ROWS", dict.fromkeys((16, 32, 64), 2))
        monkeypatch.setattr(fast, "_SHARES", {16: 3, 32: 2, 64: 1})
        monkeypatch.setattr(
            norm, "_WIDE", {"ROWS": 2, "COLUMNS": 4096}
        )  # each program takes the interpreter long


@BOTH
@pytest.mark.parametrize(
    ("channels_images_sides", "used"),
    [
        (SHAPES[2], ()),
        (SHAPES[0], ("bias", "relu")),
        (SHAPES[1], ("bias", "shortcut", "relu")),
        (SHAPES[3], ("active",)),
        (SHAPES[0], ("shortcut", "active")),
        (SHAPES[4], ("bias", "shortcut", "relu", "active")),
    ],
)
def test_convolution(dtype, channels_images_sides, used, tiles):
    channels, images, *sides = channels_images_sides
    shape = images, channels, *sides
    x, weight = draw(*shape, dtype=dtype), draw(channels, channels, 3, 3, seed=1, dtype=dtype)
    bias = draw(channels, seed=2) if "bias" in used else None
    shortcut = draw(*shape, seed=3, dtype=dtype) if "shortcut" in used else None
    active = draw(*shape, seed=4, dtype=dtype).relu() if "active" in used else None
    expected = F.conv2d(
        x.double(), weight.double(), None if bias is None else bias.double(), padding=1
    )
    expected = expected if shortcut is None else expected + shortcut
    expected = expected.relu() if "relu" in used else expected
    expected = expected if active is None else expected * (active > 0)
    assert (
        distance(conv3x3(x, arranged(weight), bias, shortcut, "relu" in used, active), expected)
        < ERROR[dtype]
    )


@EACH_SHAPE
def test_gradient_of_weights(channels_images_sides, dtype, tiles):
    channels, images, *sides = channels_images_sides
    x, gradient = (
        draw(images, channels, *sides, dtype=dtype),
        draw(images, channels, *sides, seed=1, dtype=dtype),
    )
    shape = channels, channels, 3, 3
    expected = torch.nn.grad.conv2d_weight(x.double(), shape, gradient.double(), padding=1)
    found = weight_gradient(gradient, x)
    assert distance(found, expected) < ERROR[dtype]
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shares", [1, 2])
def test_a_program_adds_up_several_steps_and_those_beyond_the_end_add_nothing(
    shares, tiles, monkeypatch
):
    """As large batches have it: three steps here, the last not full, by one program or by two of two each."""
    monkeypatch.setattr(fast, "_SHARES", {16: shares})
    x, gradient = draw(5, 16, 5, 6), draw(5, 16, 5, 6, seed=1)
    expected = torch.nn.grad.conv2d_weight(x.double(), (16, 16, 3, 3), gradient.double(), padding=1)
    assert distance(weight_gradient(gradient, x), expected) < ERROR[torch.float32]


def test_gradients_of_several_weights_are_kept_apart(tiles):
    x, gradient = draw(2, 16, 4, 4), draw(2, 16, 4, 4, seed=1)
    gradients = WeightGradients(x, 2)
    gradients.add(1, x, gradient)
    gradients.add(0, gradient, x)
    for found, expected in zip(gradients.all(), ((gradient, x), (x, gradient)), strict=True):
        assert torch.equal(found, weight_gradient(*expected))


@EACH_SHAPE
def test_moments_of_the_outputs(channels_images_sides, dtype, tiles):
    channels, images, *sides = channels_images_sides
    x, weight = (
        draw(images, channels, *sides, dtype=dtype),
        draw(channels, channels, 3, 3, seed=1, dtype=dtype),
    )
    out, parts = conv_with_moments(x, arranged(weight))
    assert torch.equal(out, conv3x3(x, arranged(weight)))
    expected = F.conv2d(x.double(), weight.double(), padding=1)
    count, mean, variance = together(parts)
    assert count.tolist() == [images * sides[0] * sides[1]] * channels
    error = ERROR[dtype] * expected.std(correction=0)
    assert (mean - expected.mean((0, 2, 3))).abs().max() < error
    assert (variance - expected.var((0, 2, 3), correction=0)).abs().max() < error * expected.std(
        correction=0
    )


def test_a_mean_far_from_zero_costs_no_digits(tiles):
    """In float32, where outputs are not rounded after their moments are taken."""
    weight = torch.zeros(16, 16, 3, 3, device=DEVICE)
    weight[:, :, 1, 1] = torch.eye(16, device=DEVICE)
    out, parts = conv_with_moments(1000 + draw(3, 16, 4, 4), arranged(weight))
    _, mean, variance = together(parts)
    assert torch.allclose(mean, out.double().mean((0, 2, 3)), rtol=1e-6)
    assert torch.allclose(variance, out.double().var((0, 2, 3), correction=0), rtol=1e-4)


@EACH_SHAPE
@pytest.mark.parametrize("add", [True, False])
def test_gradients_of_a_norm(channels_images_sides, dtype, add, tiles):
    """What comes out is behind the norm's ReLU, with its sums and its sums of products."""
    channels, images, *sides = channels_images_sides
    shape = images, channels, *sides
    gradient, weight = (
        draw(*shape, dtype=dtype),
        draw(channels, channels, 3, 3, seed=1, dtype=dtype),
    )
    out, x = draw(*shape, seed=2, dtype=dtype).relu(), draw(*shape, seed=3, dtype=dtype)
    mean, scale, shortcut = (
        draw(channels, seed=4),
        draw(channels, seed=5),
        draw(*shape, seed=6, dtype=dtype),
    )
    found, parts = conv_with_sums(
        gradient, arranged(weight), Normed(out, x, mean, scale, scale), shortcut if add else None
    )
    expected = F.conv2d(gradient.double(), weight.double(), padding=1)
    expected = (expected + shortcut if add else expected) * (out > 0)
    assert distance(found, expected) < ERROR[dtype]
    products = expected * (x.double() - mean.view(1, -1, 1, 1)) * scale.view(1, -1, 1, 1)
    sums = torch.stack([expected.sum((0, 2, 3)), products.sum((0, 2, 3))])
    assert distance(added_up(parts[None])[0], sums) < ERROR[dtype]


@pytest.mark.cuda
@pytest.mark.parametrize(("channels", "side"), [(16, 32), (32, 16), (64, 8)])
def test_sums_are_as_good_as_those_of_rounded_factors(channels, side):
    """Factors rounded to 10 bits give 3e-4; cut ones 8e-4, unless scaled."""
    x, gradient = draw(80, channels, side, side), draw(80, channels, side, side, seed=1)
    weight = draw(channels, channels, 3, 3, seed=2)
    assert (
        distance(conv3x3(x, arranged(weight)), F.conv2d(x.double(), weight.double(), padding=1))
        < 4e-4
    )
    expected = torch.nn.grad.conv2d_weight(x.double(), weight.shape, gradient.double(), padding=1)
    assert distance(weight_gradient(gradient, x), expected) < 4e-4
    assert torch.equal(weight_gradient(gradient, x), weight_gradient(gradient, x))


def test_not_a_number_is_not_hidden(tiles):
    x, weight = draw(1, 16, 4, 4), draw(16, 16, 3, 3, seed=1)
    x[0, 3, 0, 0] = float("nan")
    out = conv3x3(x, arranged(weight), relu=True)
    assert out[:, :, :2, :2].isnan().all()
    assert not out[:, :, 2:].isnan().any()
