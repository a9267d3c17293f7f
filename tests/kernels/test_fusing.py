"""Convolution, sum and ReLU in one: every spelling of it, and only where nothing else sees a difference."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothcert.kernels.generic.folding import fold
from smoothcert.kernels.generic.fusing import ConvAddReLU, ConvReLU
from tests.kernels.networks import NORMS, Trap, assert_equal_answers, count, images, lived_in

RELUS = {
    "module": lambda self, x: self.relu(self.norm(self.conv(x))),
    "F.relu": lambda self, x: F.relu(self.norm(self.conv(x))),
    "F.relu in place": lambda self, x: F.relu(self.norm(self.conv(x)), inplace=True),
    "F.relu_": lambda self, x: F.relu_(self.norm(self.conv(x))),
    "torch.relu": lambda self, x: torch.relu(self.norm(self.conv(x))),
    "torch.relu_": lambda self, x: torch.relu_(self.norm(self.conv(x))),
    "x.relu": lambda self, x: self.norm(self.conv(x)).relu(),
    "x.relu_": lambda self, x: self.norm(self.conv(x)).relu_(),
}


@pytest.mark.parametrize("relu", RELUS.values(), ids=RELUS)
def test_every_spelling_of_relu_is_fused(relu):
    net = assert_equal_answers(lived_in(Trap(relu, relu=nn.ReLU(inplace=True))), images(3, 3, 8, 8))
    assert count(net, ConvReLU) == 1


def add_in_place(self, x):
    y = self.conv(x)
    y += self.short(x)
    return F.relu(y)


def shortcut_changed(self, x):
    """The sum is made in the memory of the shortcut, which is used again."""
    z = self.short(x)
    z += self.conv(x)
    return F.relu(z * 1) + z


def shortcut_changed_unseen(self, x):
    """As above, but of a value with one more name, so that each is used once."""
    z = self.short(x)
    view = z.view(-1)
    y = F.relu(z.add_(self.conv(x)))
    return y + view.view(y.shape)


def input_changed(self, x):
    """Where the sum is made, the convolution's input is no longer what it was."""
    h = self.short(x)
    y = self.conv(h[:, :3])
    return F.relu(y + F.relu(h, True))


def sum_used_again(self, x):
    y = self.conv(x) + self.short(x)
    return F.relu(y) - y


def doubled(y):
    return y + y


def relu_in_place_seen(self, x):
    y = self.conv(x)
    F.relu_(y)
    return y


SUMS = {
    "plus": (lambda self, x: F.relu(self.conv(x) + self.short(x)), 1),
    "shortcut first": (lambda self, x: F.relu(self.short(x) + self.norm(self.conv(x))), 1),
    "torch.add": (lambda self, x: torch.add(self.conv(x), x.repeat(1, 2, 1, 1)[:, :4]).relu_(), 1),
    "method": (lambda self, x: self.conv(x).add(self.short(x)).relu(), 1),
    "in place": (add_in_place, 1),
    "scaled": (lambda self, x: torch.add(self.conv(x), self.short(x), alpha=2).relu(), 0),
    "number": (lambda self, x: F.relu(self.conv(x) + 1), 0),
    "broadcast": (lambda self, x: F.relu(self.conv(x) + self.short(x).mean(1, keepdim=True)), 0),
    "itself": (lambda self, x: F.relu(doubled(self.conv(x))), 0),
    "shortcut changed": (shortcut_changed, 0),
    "shortcut changed unseen": (shortcut_changed_unseen, 0),
    "input changed": (input_changed, 0),
    "sum used again": (sum_used_again, 0),
    "relu in place, seen": (relu_in_place_seen, 0),
}


@pytest.mark.parametrize(("rule", "sums"), SUMS.values(), ids=SUMS)
def test_sums_are_fused_only_where_nothing_else_sees_a_difference(rule, sums):
    model = lived_in(Trap(rule, short=nn.Conv2d(3, 4, 1)))
    net = assert_equal_answers(
        model, images(3, 3, 8, 8), count(fold(model, images(3, 3, 8, 8)), *NORMS)
    )
    assert count(net, ConvAddReLU) == sums


def test_a_convolution_of_another_type_is_not_fused():
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), nn.ReLU()
    ).eval()
    assert count(assert_equal_answers(model, images(3, 3, 8, 8)), ConvReLU) == 0


@pytest.mark.parametrize("kind", [ConvReLU, ConvAddReLU])
def test_fused_layers_are_bit_for_bit_the_three_operations(kind):
    conv, x = nn.Conv2d(3, 4, 3), images(2, 3, 8, 8)
    z = images(2, 4, 6, 6, seed=3) - 0.5
    kept = z.clone()
    with torch.no_grad():
        found = kind(conv)(x) if kind is ConvReLU else kind(conv)(x, z)
        assert torch.equal(found, F.relu(conv(x) if kind is ConvReLU else conv(x) + z))
    assert torch.equal(z, kept)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1}, {"groups": 8, "bias": False}, {"dilation": 2}]
)
def test_cudnns_fused_layers(dtype, options):
    conv = nn.Conv2d(32, 64, 3, **options).cuda().to(dtype).to(memory_format=torch.channels_last)
    x = images(4, 32, 16, 16).cuda().to(dtype).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        y = conv(x).float()
        z = torch.randn_like(y).to(dtype)
        tolerance = {"rtol": 0.02, "atol": 0.02}
        torch.testing.assert_close(ConvReLU(conv)(x).float(), y.relu(), **tolerance)
        torch.testing.assert_close(ConvAddReLU(conv)(x, z).float(), (y + z).relu(), **tolerance)
