import copy
import os

import pytest
import torch
from torch import nn

if (
    not torch.cuda.is_available()
):  # Triton's interpreter runs the kernels; it is chosen when they are imported
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton")

from smoothcert.errors import ModelError
from smoothcert.kernels.cifar_resnet.entry import CIFAR_RESNET
from smoothcert.kernels.cifar_resnet.sampling import TILES, FastResNet, Tile
from smoothcert.models.cifar_resnet import CifarResNet
from smoothcert.models.normalise import normalisation_layer
from tests.networks import whole_images, whole_numbers

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = (
    Tile(16, 2, 2, None),
    Tile(16, 2, 3, None),
    Tile(16, 4, 1, None),
)  # for few and small images


def network(depth, normalisation="cifar10", classes=10):
    """Weights and statistics that no layer shares."""
    torch.manual_seed(depth)
    model = nn.Sequential(normalisation_layer(normalisation), CifarResNet(depth, classes))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            module.running_mean.normal_(std=0.3)
            module.running_var.uniform_(0.5, 2)
    return model.eval().to(DEVICE)


def images(count, size=(32, 32), seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = count, 3, *size
    return (
        torch.rand(shape, generator=generator) + 0.25 * torch.randn(shape, generator=generator)
    ).to(DEVICE)


def distance(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize(
    ("depth", "normalisation", "classes", "size", "count", "tiles"),
    [
        (8, "cifar10", 10, (32, 32), 3, TILES),
        (14, "none", 10, (8, 8), 5, SMALL),
        (8, "cifar10-mean", 37, (12, 8), 3, SMALL),  # sides that no tile divides
    ],
)
def test_logits_are_those_of_the_plain_network(depth, normalisation, classes, size, count, tiles):
    model, x = network(depth, normalisation, classes), images(count, size)
    before = copy.deepcopy(model.state_dict())
    fast = FastResNet(model, torch.float16, DEVICE, size, tiles)
    with torch.inference_mode():
        expected = model(x)
        found = fast(x)
    assert found.dtype == torch.float32
    assert distance(found, expected) < 1e-3
    assert torch.equal(fast(x, persistent=False), found)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.cuda  # the interpreter multiplies the bits of bfloat16, not their values
def test_bfloat16():
    model, x = network(20), images(100)
    with torch.inference_mode():
        assert distance(FastResNet(model, torch.bfloat16, DEVICE)(x), model(x)) < 1e-2


def whole_network():
    """Sums of this one are exact in any order: BatchNorms do nothing, and means are over 4 pixels."""
    model = whole_numbers(nn.Sequential(normalisation_layer("none"), CifarResNet(8, 10)))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 0.0
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
    return model.to(DEVICE)


# The interpreter multiplies by NumPy, whose sums round by a row's place: there only whole numbers have the same bits.
@pytest.mark.parametrize(
    ("model", "x"),
    [
        pytest.param(whole_network(), whole_images(5, 3, 8, 8).to(DEVICE), id="whole"),
        pytest.param(network(8), images(5, (8, 8)), id="floats", marks=pytest.mark.cuda),
    ],
)
def test_an_image_has_the_same_logits_in_every_batch(model, x):
    fast = FastResNet(model, torch.float16, DEVICE, (8, 8), SMALL)
    together = fast(x)
    assert together.isfinite().all()
    assert len(together.unique(dim=0)) == len(x)
    assert torch.equal(fast(x.flip(0)), together.flip(0))
    assert torch.equal(torch.cat([fast(image[None]) for image in x]), together)
    fast(images(9, (8, 8), seed=1))  # leaves its own images in the buffers
    assert torch.equal(fast(x[1:4]), together[1:4])


def test_the_stem_does_not_normalise_the_padding():
    model, size = network(8), (8, 8)
    fast = FastResNet(model, torch.float16, DEVICE, size, SMALL)
    x = images(2, size) * 0 + model[0].mean + 1  # far from the mean, so that the border matters
    with torch.inference_mode():
        assert distance(fast(x), model(x)) < 1e-3


def test_images_may_be_written_in_place():
    fast = FastResNet(whole_network(), torch.float16, DEVICE, (8, 8), SMALL)
    x = whole_images(4, 3, 8, 8).to(DEVICE)
    expected = fast(x)
    with torch.inference_mode():
        place = fast.inputs(7)
    place[:4] = x
    assert place.shape == (7, 3, 8, 8)
    assert torch.equal(fast(place[:4]), expected)
    assert torch.equal(fast(place[1:4]), expected[1:])
    with pytest.raises(ModelError, match=r"\[2, 3, 8, 8\], found \[2, 1, 8, 8\]"):
        fast(x[:2, :1])


def test_not_a_number_comes_through():
    model = network(8)
    model[1].layer2[0].conv1.weight.data[3] = float("nan")
    assert FastResNet(model, torch.float16, DEVICE, (8, 8), SMALL)(images(1, (8, 8))).isnan().all()


def with_hook(model):
    model[1].layer1[0].register_forward_hook(lambda *_: None)
    return model


def with_other_layer(model):
    model[1].layer2[0].conv2 = nn.Conv2d(32, 32, 3, padding=2, dilation=2, bias=False)
    return model.eval()


class Subclass(CifarResNet):
    pass


@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (network(8), (3, 32, 32), None),
        (network(20, "none", 100), (3, 64, 32), None),
        (network(8)[1], (3, 32, 32), "not a CIFAR ResNet"),
        (nn.Sequential(nn.Identity(), Subclass(8)), (3, 32, 32), "not a CIFAR ResNet"),
        (nn.Sequential(nn.ReLU(), CifarResNet(8)), (3, 32, 32), "first layer"),
        (network(8), (3, 30, 32), "divisible by 4"),
        (network(8), (1, 32, 32), "divisible by 4"),
        (with_hook(network(8)), (3, 32, 32), "hooks"),
        (network(8).train(), (3, 32, 32), "training"),
        (with_other_layer(network(8)), (3, 32, 32), "layers"),
        (network(8, classes=1025), (3, 32, 32), "1024"),
    ],
)
def test_models_that_do_not_fit(model, shape, reason):
    found = CIFAR_RESNET.why_not_sampling(model, shape)
    assert found is None if reason is None else reason in found


def test_memory_that_runs_out_while_buffers_grow_leaves_none_that_are_too_small(monkeypatch):
    """The kernels check no bounds: after a failed growth a smaller batch must get buffers of its own size."""
    net = FastResNet(network(8), torch.float16, DEVICE, (8, 8), SMALL)
    net.inputs(2)
    real, calls = FastResNet._zeros, []

    def zeros(self, *shape):
        calls.append(shape)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("out of memory")
        return real(self, *shape)

    monkeypatch.setattr(FastResNet, "_zeros", zeros)
    with pytest.raises(torch.OutOfMemoryError):
        net.inputs(64)
    net.inputs(32)
    assert all(len(buffer) >= 32 for pair in net._buffers for buffer in pair)
