"""The hash of a network's layers: another one for another forward, the same under every PyTorch."""

import copy

import pytest
import torch
from torch import nn

from smoothcert.models import build_model
from smoothcert.models.structure import structure, structure_hash


class Scaled(nn.Module):
    """Says of itself by what it scales."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.value = factor, 0

    def forward(self, x):
        self.value += 1
        return x * self.factor

    def extra_repr(self):
        return f"factor={self.factor}"


def net(**other):
    chosen = {
        "stride": 1,
        "eps": 1e-5,
        "activation": nn.ReLU(),
        "pool": nn.AvgPool2d(2),
        "factor": 2,
        "padding_mode": "zeros",
    } | other
    return nn.Sequential(
        Scaled(chosen["factor"]),
        nn.Conv2d(3, 4, 3, stride=chosen["stride"], padding=1, padding_mode=chosen["padding_mode"]),
        nn.BatchNorm2d(4, eps=chosen["eps"]),
        chosen["activation"],
        chosen["pool"],
    )


@pytest.mark.parametrize(
    "other",
    [
        {"stride": 2},
        {"eps": 1e-3},
        {"activation": nn.Softplus()},
        {"activation": nn.LeakyReLU(0.1)},
        {"activation": nn.LeakyReLU(0.2)},
        {"activation": nn.GELU()},
        {"activation": nn.GELU("tanh")},
        {"activation": nn.Softmax(1)},
        {"activation": nn.Softmax(2)},
        {"pool": nn.MaxPool2d(2)},
        {"pool": nn.AvgPool2d(2, ceil_mode=True)},
        {"pool": nn.AvgPool2d(2, stride=1)},
        {"pool": nn.Upsample(scale_factor=2)},
        {"pool": nn.Upsample(scale_factor=3)},
        {"padding_mode": "reflect"},
        {"factor": 3},
    ],
    ids=str,
)
def test_networks_of_the_same_weights_with_another_layer_have_another_hash(other):
    seen = {structure_hash(net()), structure_hash(net(activation=nn.LeakyReLU())), structure_hash(net(**other))}
    assert len(seen) == 3
    assert structure_hash(net(**other)) == structure_hash(copy.deepcopy(net(**other)))


def test_a_pass_or_a_mode_changes_nothing():
    network = net()
    before = structure_hash(network)
    network.train()(torch.rand(2, 3, 8, 8))  # `value` counts passes
    assert structure_hash(network.eval()) == before


def test_words_of_pytorch_are_not_in_it(monkeypatch):
    """Under PyTorch 2.11 and 2.13 BatchNorm tells of itself differently."""
    network = build_model("resnet20", seed=0)
    before = structure_hash(network)
    monkeypatch.setattr(nn.BatchNorm2d, "extra_repr", lambda self: "other words")
    nn.BatchNorm2d.extra_repr.__module__ = "torch.nn.modules.batchnorm"
    assert "other words" in repr(network)
    assert structure_hash(network) == before


def test_a_line_for_each_layer():
    assert structure(net()).splitlines() == [
        ": Sequential()",
        "0: Scaled(factor=2)",
        "1: Conv2d(kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), output_padding=(0, 0), dilation=(1, 1), "
        "groups=1, padding_mode='zeros')",
        "2: BatchNorm2d(eps=1e-05, track_running_stats=True)",
        "3: ReLU()",
        "4: AvgPool2d(kernel_size=2, stride=2, padding=0, ceil_mode=False, count_include_pad=True)",
    ]


def test_the_hash_of_a_shipped_network_stays_as_it_is():
    """Stores hold it: what changes it must change its scheme, too."""
    assert structure_hash(build_model("resnet20", seed=0)) == (
        "layers-1:3b49f35d4af144331ec7e5f2bfd62e416c15985aba337e40e5d0144c6013e34d"
    )
