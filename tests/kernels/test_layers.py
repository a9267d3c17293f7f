"""Kernels of single layers against PyTorch's, and the traps: what must not be replaced."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothcert.kernels.generic.folding import fold
from smoothcert.kernels.generic.fusing import fuse
from smoothcert.kernels.prepare import arithmetic
from smoothcert.models import build_model
from smoothcert.models.normalise import normalisation_layer
from tests.kernels.networks import Trap, count, images, lived_in, with_statistics

pytest.importorskip("triton")
from smoothcert.kernels.layers.modules import (
    ChannelNorm,
    LinearGelu,
    MaxPool,
    NarrowConv,
    Patches,
    TokenNorm,
)
from smoothcert.kernels.layers.replacing import with_layer_kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # where Triton's interpreter runs them
KINDS = (ChannelNorm, LinearGelu, MaxPool, NarrowConv, Patches, TokenNorm)
EXACT = {"rtol": 1e-4, "atol": 1e-5}


def replaced(model, x):
    """The network with kernels, and how many of each kind; its answers are those of the plain one."""
    model, x = model.to(DEVICE), x.to(DEVICE)
    with arithmetic("float32"):
        net = fuse(fold(model, x[:2]))
    found = with_layer_kernels(net)
    assert found == count(net, *KINDS)
    for layout in (torch.contiguous_format, torch.channels_last):
        with torch.inference_mode():
            expected = model(x)
            answer = net.to(memory_format=layout)(x.contiguous(memory_format=layout))
            assert (answer - expected).norm() < 2e-3 * expected.norm()  # TF32 on a GPU
            if DEVICE == "cpu":
                torch.testing.assert_close(
                    answer, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max())
                )
    return {kind: number for kind in KINDS if (number := count(net, kind))}


@pytest.mark.parametrize("width", [3, 48, 300])
@pytest.mark.parametrize("keep", [False, True])
def test_norms_of_sums(width, keep):
    x, z = (
        images(5, width, 3, 2, seed=2).to(DEVICE) - 0.5,
        images(5, width, 3, 2, seed=3).to(DEVICE),
    )
    batch, layer = (
        lived_in(nn.BatchNorm2d(width)).to(DEVICE),
        nn.LayerNorm(width, eps=1e-3).to(DEVICE),
    )
    layer.weight.data.copy_(images(width)), layer.bias.data.copy_(images(width, seed=4))
    rows, others = x.flatten(2).transpose(1, 2), z.flatten(2).transpose(1, 2)  # not contiguous
    with torch.no_grad():
        for relu in (False, True):
            expected = batch(x + z).relu() if relu else batch(x + z)
            found = ChannelNorm(batch, relu, keep)(x, z)
            torch.testing.assert_close(found[1] if keep else found, expected, **EXACT)
            assert not keep or torch.equal(found[0], x + z)
            torch.testing.assert_close(
                ChannelNorm(batch, relu, False)(x), batch(x).relu() if relu else batch(x), **EXACT
            )
        found = TokenNorm(layer, keep)(rows, others)
        torch.testing.assert_close(found[1] if keep else found, layer(rows + others), **EXACT)
        assert not keep or torch.equal(found[0], rows + others)
        plain = nn.LayerNorm(width, elementwise_affine=False).to(DEVICE)
        torch.testing.assert_close(TokenNorm(plain, False)(rows), plain(rows), **EXACT)


@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2)]
)
@pytest.mark.parametrize("channels", [3, 300])
def test_max_pooling_is_bit_for_bit_pytorchs(size, stride, padding, channels):
    x = images(2, channels, 9, 7).to(DEVICE) - 0.5
    x[0, 0, 3, 3], x[1, 1, 0, 0] = torch.nan, torch.inf
    expected = F.max_pool2d(x, size, stride, padding)
    assert torch.equal(
        MaxPool(size, stride, padding)(x).nan_to_num(7.0, 8.0), expected.nan_to_num(7.0, 8.0)
    )


def test_gelu_of_a_linear_layer_is_near_that_of_the_normal_distribution():
    linear, x = nn.Linear(3, 40).to(DEVICE), 4 * images(2, 50, 3).to(DEVICE) - 2
    with torch.no_grad():
        z = linear(x).double()
        found = LinearGelu(linear)(x).double()
    torch.testing.assert_close(
        found, z * torch.special.ndtr(z), rtol=0, atol=6e-4 if DEVICE == "cpu" else 2e-3
    )
    assert bool(LinearGelu(linear)(x * torch.nan).isnan().all())


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding", "out"), [(3, 1, 1, 16), (7, 2, 3, 20), (5, 2, 0, 3), (1, 2, 0, 5)]
)
def test_the_first_convolution_pads_after_normalisation(
    size, stride, padding, out, relu, normalised
):
    conv = nn.Conv2d(3, out, size, stride, padding, bias=not relu).to(DEVICE)
    norm = normalisation_layer("cifar10").to(DEVICE) if normalised else None
    x = images(3, 3, 11, 9).to(DEVICE)
    with torch.no_grad():
        expected = conv(x if norm is None else norm(x))
        expected = expected.relu() if relu else expected
        for layout in (torch.contiguous_format, torch.channels_last):
            found = NarrowConv(conv, norm, relu)(x.contiguous(memory_format=layout))
            assert (found - expected).norm() < (1e-5 if DEVICE == "cpu" else 2e-3) * expected.norm()


@pytest.mark.parametrize(
    "text", ["cifar10", "range=-1,1"]
)  # a value for each channel, and one for all
def test_first_layers_of_images(text):
    norm, conv = normalisation_layer(text).to(DEVICE), nn.Conv2d(3, 8, 4, 4).to(DEVICE)
    x = images(2, 3, 8, 8).to(DEVICE)
    near = {"rtol": 1e-2, "atol": 1e-2} if DEVICE == "cuda" else EXACT
    with torch.no_grad():
        for made in (NarrowConv(conv, norm, False), Patches(conv, norm)):
            torch.testing.assert_close(made(x), conv(norm(x)), **near)
        torch.testing.assert_close(ChannelNorm(norm, False, False)(x), norm(x), **EXACT)


@pytest.mark.parametrize("normalised", [False, True])
def test_patches_are_a_product(normalised):
    conv, x = (
        nn.Conv2d(3, 10, 4, 4, bias=normalised).double(),
        images(2, 3, 9, 12).double(),
    )  # a line is left over
    norm = normalisation_layer("imagenet") if normalised else None
    with torch.no_grad():
        expected = conv(x if norm is None else norm.double()(x))
        torch.testing.assert_close(Patches(conv, norm)(x), expected, rtol=1e-9, atol=1e-9)


class Block(nn.Module):
    """A transformer's, in the common way."""

    def __init__(self, width=32):
        super().__init__()
        self.norm1, self.norm2, self.mix = (
            nn.LayerNorm(width),
            nn.LayerNorm(width),
            nn.Linear(width, width),
        )
        self.mlp = nn.Sequential(
            nn.Linear(width, 48), nn.GELU(approximate="tanh"), nn.Linear(48, width)
        )

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.blocks = nn.Conv2d(3, 32, 4, 4), nn.Sequential(Block(), Block())
        self.norm, self.head, self.places = (
            nn.LayerNorm(32),
            nn.Linear(32, 5),
            nn.Parameter(images(1, 12, 32)),
        )

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(tokens + self.places)).mean(1))


class Preactivated(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.conv1, self.conv2 = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x):
        out = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))
        out += x
        return out


def head(width):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5))


def preactivated():
    net = [
        nn.Conv2d(3, 8, 3, padding=1),
        Preactivated(),
        Preactivated(),
        nn.BatchNorm2d(8),
        nn.ReLU(),
    ]
    net += [nn.Conv2d(8, 9, 1, 2), head(9)]
    return lived_in(nn.Sequential(normalisation_layer("cifar10"), *net))


NETWORKS = {
    "transformer": (
        lambda: nn.Sequential(normalisation_layer("imagenet"), Transformer()).eval(),
        {Patches: 1, TokenNorm: 5, LinearGelu: 2},
    ),
    "preactivated": (preactivated, {NarrowConv: 2, ChannelNorm: 3}),
    "imagenet's": (
        lambda: with_statistics(build_model("resnet50", 5, "imagenet", seed=0)),
        {NarrowConv: 1, MaxPool: 1},
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_whole_networks(name):
    model, found = NETWORKS[name]
    assert replaced(model(), images(3, 3, 16, 12)) == found


def changed_before_the_norm(self, x):
    y = self.short(x) + self.conv(x)
    F.relu_(y)
    return self.norm(y)


def sum_changed_afterwards(self, x):
    y = self.short(x) + self.conv(x)
    z = self.norm(y)
    y += z
    return y


def added_in_place_to_what_is_used_again(self, x):
    y = self.short(x)
    z = y.view(y.shape).add_(self.conv(x))
    return self.norm(z) * y


# the forward, and whether the norm adds
SUMS = {
    "sum used by none else": (lambda self, x: self.norm(self.short(x) + self.conv(x)), True),
    "sum used twice more": (
        lambda self, x: (lambda y: self.norm(y) * y - y)(self.conv(x) + self.short(x)),
        True,
    ),
    "broadcast": (lambda self, x: self.norm(self.conv(x) + x[:, :1]), False),
    "sum changed afterwards": (sum_changed_afterwards, True),
    "changed before the norm": (changed_before_the_norm, False),
    "added in place": (added_in_place_to_what_is_used_again, False),
    "a number": (lambda self, x: self.norm(self.conv(x) + 1), False),
    "itself": (lambda self, x: (lambda y: self.norm(y + y))(self.short(x)), True),
}


@pytest.mark.parametrize(("rule", "adds"), SUMS.values(), ids=SUMS)
def test_sums_belong_to_a_norm_only_where_nothing_else_sees_a_difference(rule, adds):
    model, x = lived_in(Trap(rule, short=nn.Conv2d(3, 4, 1))), images(3, 3, 8, 8)
    assert ChannelNorm in replaced(model, x)
    with arithmetic("float32"):
        net = fuse(fold(model, x.to(DEVICE)))
    with_layer_kernels(net)
    (norm,) = (node for node in net.graph.nodes if "channelnorm" in str(node.target))
    assert len(norm.args) == 1 + adds


OTHERS = {
    "windows that are not square": nn.Conv2d(3, 4, (3, 5)),
    "groups": nn.Conv2d(3, 6, 3, groups=3),
    "dilation": nn.Conv2d(3, 4, 3, dilation=2),
    "reflected padding": nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
    "padding in words": nn.Conv2d(3, 4, 3, padding="same"),
    "a window too large": nn.Conv2d(3, 4, 11),
    "indices": nn.Sequential(nn.Conv2d(3, 4, 3, dilation=2), nn.MaxPool2d(2, ceil_mode=True)),
    "another norm": nn.Sequential(nn.Conv2d(3, 4, 3, dilation=2), nn.LayerNorm([4, 12, 12])),
    "gelu of a convolution": nn.Sequential(nn.Conv2d(3, 4, 3, dilation=2), nn.GELU()),
}


@pytest.mark.parametrize("layer", OTHERS.values(), ids=OTHERS)
def test_other_layers_stay_as_they_are(layer):
    assert replaced(nn.Sequential(layer, nn.Flatten()).eval(), images(2, 3, 16, 16)) == {}
