"""Batch normalisation with shortcut and ReLU against PyTorch's: by Triton's interpreter without a GPU."""

import copy

import pytest
import torch
from torch import nn

pytest.importorskip("triton")
from smoothcert.kernels.cifar_resnet import norm as fast
from smoothcert.kernels.cifar_resnet.norm import added_up, norm_relu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def layer(channels, seed=0):
    generator = torch.Generator().manual_seed(seed)
    norm = nn.BatchNorm2d(channels)
    with torch.no_grad():
        norm.weight.copy_(1 + 0.3 * torch.randn(channels, generator=generator))
        norm.bias.copy_(0.3 * torch.randn(channels, generator=generator))
        norm.running_mean.copy_(torch.randn(channels, generator=generator))
        norm.running_var.uniform_(0.5, 2, generator=generator)
    return norm


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize(("channels", "images", "size"), [(16, 3, 5), (64, 2, 4), (32, 7, 9)])
def test_values_gradients_and_running_statistics(relu, add, channels, images, size, monkeypatch):
    monkeypatch.setattr(fast, "_SHARES", 3)  # several programs, which take several tiles each
    monkeypatch.setattr(fast, "_VALUES", 512)
    monkeypatch.setattr(fast, "_FORWARD", 256)
    monkeypatch.setattr(fast, "_BACKWARD", 128)
    monkeypatch.setattr(
        fast, "_NARROW", {"ROWS": 2, "COLUMNS": 8}
    )  # more shares than are added up at a time
    x = (3 + 2 * draw(images, channels, size, size)).to(memory_format=torch.channels_last)
    shortcut = draw(images, channels, size, size, seed=1) if add else None
    weight = draw(images, channels, size, size, seed=2)
    found = []
    for ours, norm, dtype in (
        (False, layer(channels).double(), torch.float64),
        (True, layer(channels), torch.float32),
    ):
        norm = norm.to(DEVICE)
        inputs = [t.to(DEVICE, dtype).requires_grad_() for t in (x, shortcut) if t is not None]
        if ours:
            out = norm_relu(inputs[0], norm, inputs[1] if add else None, relu)
        else:
            out = norm(inputs[0]) + (inputs[1] if add else 0.0)
            out = out.relu() if relu else out
        gradients = torch.autograd.grad(
            out, [*inputs, norm.weight, norm.bias], weight.to(DEVICE, dtype)
        )
        found.append([out.detach(), *gradients, norm.running_mean, norm.running_var])
    for expected, ours in zip(*found, strict=True):
        assert torch.allclose(ours.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mean", [10.0, 1000.0])
def test_a_mean_far_from_zero_costs_no_digits(mean):
    norm = layer(16).to(DEVICE)
    x = (mean + draw(4, 16, 6, 6)).to(DEVICE)
    expected = copy.deepcopy(norm).double()(x.double())
    assert torch.allclose(norm_relu(x, norm, relu=False).double(), expected, atol=1e-3)


def test_running_statistics_do_not_matter():
    """Nor does a batch that went wrong, once it is over."""
    norm = layer(16).to(DEVICE)
    x = draw(2, 16, 4, 4).to(DEVICE)
    expected = norm_relu(x, norm)
    for value in (1e20, float("nan")):
        norm.running_mean.fill_(value)
        assert torch.equal(norm_relu(x, norm), expected)


def test_one_value_has_no_variance():
    with pytest.raises(ValueError, match=r"\[1, 16, 1, 1\]"):
        norm_relu(draw(1, 16, 1, 1).to(DEVICE), layer(16).to(DEVICE))


@pytest.mark.parametrize("shape", [(1, 1, 5), (1, 600, 2, 33), (3, 17, 9, 64)])
def test_shares_are_added_up(shape):
    parts = draw(*shape).to(DEVICE)
    assert torch.allclose(added_up(parts), parts.sum(1), atol=1e-4)


def test_not_a_number_is_not_hidden():
    x = draw(2, 16, 4, 4).to(DEVICE)
    x[0, 3, 1, 1] = float("nan")
    out = norm_relu(x, layer(16).to(DEVICE))
    assert out[:, 3].isnan().all()
    assert not out[:, 2].isnan().any()
