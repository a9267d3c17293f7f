"""3x3 convolutions and their weights' gradient against float64; without a GPU by Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")
from smoothcert.kernels.cifar_resnet import conv as fast
from smoothcert.kernels.cifar_resnet.conv import conv3x3, weight_gradient

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# the interpreter multiplies the bits of bfloat16, not their values, and float32 as such instead of TF32
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
ERROR = {torch.float32: 2e-3 if DEVICE.type == "cuda" else 1e-5, HALF: 5e-3}
SHAPES = [(16, 3, 5, 6), (32, 2, 7, 4), (16, 1, 1, 1), (32, 5, 8, 8)]  # channels, images, height, width


def draw(*shape, seed=0, dtype=torch.float32):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE, dtype, memory_format=torch.channels_last if len(shape) == 4 else torch.contiguous_format)


def distance(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


@pytest.fixture(params=["small", pytest.param("as used", marks=pytest.mark.cuda)])
def tiles(request, monkeypatch):
    """Small ones make several programs here, the last of which has pixels beyond the end."""
    if request.param == "small":
        monkeypatch.setattr(fast, "_TILE", {"PIXELS": 8, "WARPS": 2})
        monkeypatch.setattr(fast, "_WEIGHTS_TILE", {"PIXELS": 16, "WARPS": 2})
        monkeypatch.setattr(fast, "_SHARES", {16: 3, 32: 2})


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("channels_images_sides", SHAPES)
@pytest.mark.parametrize(
    "used", [(), ("bias", "relu"), ("bias", "shortcut", "relu"), ("active",), ("shortcut", "active"), ("shortcut",)]
)
def test_convolution(dtype, channels_images_sides, used, tiles):
    channels, images, *sides = channels_images_sides
    shape = images, channels, *sides
    x, weight = draw(*shape, dtype=dtype), draw(channels, channels, 3, 3, seed=1, dtype=dtype)
    bias = draw(channels, seed=2) if "bias" in used else None
    shortcut = draw(*shape, seed=3, dtype=dtype) if "shortcut" in used else None
    active = draw(*shape, seed=4, dtype=dtype).relu() if "active" in used else None
    expected = F.conv2d(x.double(), weight.double(), None if bias is None else bias.double(), padding=1)
    expected = expected if shortcut is None else expected + shortcut
    expected = expected.relu() if "relu" in used else expected
    expected = expected if active is None else expected * (active > 0)
    assert distance(conv3x3(x, weight, bias, shortcut, "relu" in used, active), expected) < ERROR[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("channels_images_sides", SHAPES)
def test_gradient_of_weights(dtype, channels_images_sides, tiles):
    channels, images, *sides = channels_images_sides
    x, gradient = draw(images, channels, *sides, dtype=dtype), draw(images, channels, *sides, seed=1, dtype=dtype)
    shape = channels, channels, 3, 3
    expected = torch.nn.grad.conv2d_weight(x.double(), shape, gradient.double(), padding=1)
    found = weight_gradient(gradient, x)
    assert distance(found, expected) < ERROR[dtype]
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.cuda
@pytest.mark.parametrize(("channels", "side"), [(16, 32), (32, 16)])
def test_sums_are_as_good_as_those_of_rounded_factors(channels, side):
    """Factors rounded to 10 bits give 3e-4; cut ones 8e-4, unless scaled."""
    x, gradient = draw(80, channels, side, side), draw(80, channels, side, side, seed=1)
    weight = draw(channels, channels, 3, 3, seed=2)
    assert distance(conv3x3(x, weight), F.conv2d(x.double(), weight.double(), padding=1)) < 4e-4
    expected = torch.nn.grad.conv2d_weight(x.double(), weight.shape, gradient.double(), padding=1)
    assert distance(weight_gradient(gradient, x), expected) < 4e-4
    assert torch.equal(weight_gradient(gradient, x), weight_gradient(gradient, x))


def test_not_a_number_is_not_hidden(tiles):
    x, weight = draw(1, 16, 4, 4), draw(16, 16, 3, 3, seed=1)
    x[0, 3, 0, 0] = float("nan")
    out = conv3x3(x, weight, relu=True)
    assert out[:, :, :2, :2].isnan().all()
    assert not out[:, :, 2:].isnan().any()
