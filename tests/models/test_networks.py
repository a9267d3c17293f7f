"""The architectures: sizes, initialisation, shapes, and independent forwards."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothcert.errors import ConfigError
from smoothcert.models import CifarResNet, LeNet, ResNet50, build_model


@pytest.mark.parametrize(
    ("network", "parameters"),
    [
        (lambda: LeNet(), 431_080),
        (lambda: CifarResNet(20), 272_474),
        (lambda: CifarResNet(110), 1_730_714),
        (lambda: CifarResNet(110, 100), 1_736_564),
        (lambda: CifarResNet(110, 1000), 1_795_064),
        (lambda: ResNet50(), 25_557_032),
    ],
)
def test_parameter_count(network, parameters):
    with torch.device("meta"):
        assert sum(p.numel() for p in network().parameters()) == parameters


@pytest.mark.parametrize(
    ("network", "image", "classes"),
    [
        (LeNet(), (1, 28, 28), 10),
        (LeNet(7), (1, 28, 28), 7),
        (CifarResNet(8), (3, 32, 32), 10),
        (CifarResNet(20, 100), (3, 32, 32), 100),
        (CifarResNet(8, 5), (3, 28, 28), 5),
        (ResNet50(11), (3, 64, 64), 11),
    ],
)
def test_output_shape(network, image, classes):
    assert network.eval()(torch.zeros(2, *image)).shape == (2, classes)


def test_lenet_equals_its_formula():
    net, x = LeNet().double(), torch.rand(3, 1, 28, 28, dtype=torch.float64)
    w = net.state_dict()
    hidden = F.conv2d(x, w["conv1.weight"], w["conv1.bias"]).clamp(min=0)
    hidden = hidden.unfold(2, 2, 2).unfold(3, 2, 2).amax(dim=(4, 5))
    hidden = F.conv2d(hidden, w["conv2.weight"], w["conv2.bias"]).clamp(min=0)
    hidden = hidden.unfold(2, 2, 2).unfold(3, 2, 2).amax(dim=(4, 5)).reshape(3, 800)
    hidden = (hidden @ w["fc1.weight"].T + w["fc1.bias"]).clamp(min=0)
    torch.testing.assert_close(net(x), hidden @ w["fc2.weight"].T + w["fc2.bias"])


def batch_norm(x, w, name):
    shape = (1, -1, 1, 1)
    mean, var = w[f"{name}.running_mean"].view(shape), w[f"{name}.running_var"].view(shape)
    gamma, beta = w[f"{name}.weight"].view(shape), w[f"{name}.bias"].view(shape)
    return (x - mean) / (var + 1e-5).sqrt() * gamma + beta


def disturb_batch_norms(net):
    """Statistics and scales away from 0 and 1, so that a swapped or forgotten one shows."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                nn.init.uniform_(tensor, 0.5, 1.5)


def literal_resnet(w, x, stages, kernels, stem_stride):
    """A residual network read off its state dict: blocks of `kernels`, the stride at the first 3x3 of a stage."""
    x = F.conv2d(x, w["conv1.weight"], stride=stem_stride, padding=w["conv1.weight"].shape[-1] // 2)
    x = batch_norm(x, w, "bn1").clamp(min=0)
    if stem_stride == 2:
        x = F.max_pool2d(x, kernel_size=3, stride=2, padding=1)
    for s, blocks in enumerate(stages, start=1):
        for b in range(blocks):
            block, out = f"layer{s}.{b}", x
            stride = 2 if s > 1 and b == 0 else 1
            strided = kernels.index(3) + 1
            for k, kernel in enumerate(kernels, start=1):
                step = stride if k == strided else 1
                out = F.conv2d(out, w[f"{block}.conv{k}.weight"], stride=step, padding=kernel // 2)
                out = batch_norm(out, w, f"{block}.bn{k}")
                out = out.clamp(min=0) if k < len(kernels) else out
            if f"{block}.downsample.0.weight" in w:
                x = F.conv2d(x, w[f"{block}.downsample.0.weight"], stride=stride)
                x = batch_norm(x, w, f"{block}.downsample.1")
            x = (out + x).clamp(min=0)
    pooled = F.avg_pool2d(x, x.shape[-1]).flatten(1)
    return pooled @ w["fc.weight"].T + w["fc.bias"]


@pytest.mark.parametrize(
    ("net", "size", "stages", "kernels", "stem_stride"),
    [
        (CifarResNet(20), 32, (3, 3, 3), (3, 3), 1),
        (ResNet50(10), 64, (3, 4, 6, 3), (1, 3, 1), 2),
    ],
)
def test_resnet_equals_its_formula(net, size, stages, kernels, stem_stride):
    disturb_batch_norms(net)
    net, x = net.double().eval(), torch.rand(2, 3, size, size, dtype=torch.float64)
    expected = literal_resnet(net.state_dict(), x, stages, kernels, stem_stride)
    with torch.no_grad():
        torch.testing.assert_close(net(x), expected)


@pytest.mark.parametrize(
    ("network", "places"),
    [
        (lambda: CifarResNet(20), {"layer2.0", "layer3.0"}),
        (lambda: CifarResNet(110), {"layer2.0", "layer3.0"}),
        (lambda: ResNet50(), {"layer1.0", "layer2.0", "layer3.0", "layer4.0"}),
    ],
)
def test_projection_only_where_the_shape_changes(network, places):
    with torch.device("meta"):
        keys = [key for key in network().state_dict() if "downsample" in key]
    assert {key.split(".downsample")[0] for key in keys} == places
    assert {key.split("downsample.")[1] for key in keys} == {
        "0.weight",
        *(
            f"1.{name}"
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        ),
    }


@pytest.mark.parametrize("arch", ["resnet20", "resnet50"])
def test_initialisation(arch):
    """He fan-out: each convolution N(0, 2 / (k*k*out)); batch normalisation is the identity to begin with."""
    net = build_model(arch, seed=0)[1]
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv2d):
            assert module.bias is None
            weight = module.weight.detach().double()
            scale = math.sqrt(2 / (module.kernel_size[0] ** 2 * module.out_channels))
            # five standard errors of the standard deviation and of the mean of that many normal numbers
            assert abs(weight.std() / scale - 1) < 5 / math.sqrt(2 * weight.numel()), name
            assert abs(weight.mean()) / scale < 5 / math.sqrt(weight.numel()), name
        elif isinstance(module, nn.BatchNorm2d):
            assert torch.all(module.weight == 1), name
            assert torch.all(module.bias == 0), name


@pytest.mark.parametrize("depth", [-4, 2, 7, 18, 34, 101, 111])
def test_depth_must_be_6n_plus_2(depth):
    with pytest.raises(ConfigError, match=rf"6n\+2.*not {depth};.*torchvision:NAME"):
        CifarResNet(depth)
