"""Folded and fused networks against the plain ones, and the traps: what must not be folded or fused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothcert.kernels.generic.folding import CannotFold, fold
from smoothcert.kernels.generic.fusing import ConvAddReLU, ConvReLU, fuse
from smoothcert.models import build_model
from tests.kernels.networks import Trap, assert_equal_answers, count, images, lived_in


@pytest.mark.parametrize(
    ("arch", "normalisation", "shape", "relus", "sums"),
    [
        ("lenet", "none", (1, 28, 28), 2, 0),
        ("resnet20", "cifar10", (3, 32, 32), 10, 9),
        ("resnet50", "imagenet", (3, 64, 64), 33, 16),
    ],
)
def test_this_projects_networks(arch, normalisation, shape, relus, sums):
    model = lived_in(build_model(arch, 10, normalisation, seed=0))
    net = assert_equal_answers(model, images(3, *shape))
    assert (count(net, ConvReLU), count(net, ConvAddReLU)) == (relus, sums)
    other = images(5, *shape, seed=2)  # another batch than the example
    torch.testing.assert_close(net(other), model(other), rtol=1e-4, atol=1e-4)


def test_the_given_network_stays_as_it_was():
    model = lived_in(build_model("resnet20", 10, "cifar10", seed=0)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    net = fuse(fold(model, images(2, 3, 32, 32)))
    assert model.training
    assert not any(module.training for module in net.modules())
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    with torch.no_grad():
        for weight in net.parameters():
            weight.zero_()
    assert all(torch.equal(after[name], value) for name, value in before.items())


CHAINS = {
    "bias": nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
    "no bias": nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)),
    "no affine": nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False)),
    "large eps": nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, eps=0.5)),
    "groups": nn.Sequential(
        nn.Conv2d(3, 6, 3, groups=3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU()
    ),
    "reflect": nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=2, padding_mode="reflect"), nn.BatchNorm2d(4), nn.ReLU()
    ),
    "same": nn.Sequential(
        nn.Conv2d(3, 4, 3, padding="same", dilation=2), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
    ),
    "dropout": nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.Dropout2d(0.5), nn.BatchNorm2d(4), nn.Dropout(0.9), nn.ReLU()
    ),
    "linear": nn.Sequential(
        nn.Flatten(), nn.Linear(3 * 8 * 8, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)
    ),
    "1d": nn.Sequential(nn.Flatten(2), nn.Conv1d(3, 4, 5), nn.BatchNorm1d(4), nn.ReLU()),
    "3d": nn.Sequential(
        nn.Unflatten(1, (3, 1)), nn.Conv3d(3, 4, (1, 3, 3)), nn.BatchNorm3d(4), nn.ReLU()
    ),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_chains(chain):
    net = assert_equal_answers(lived_in(chain), images(3, 3, 8, 8))
    assert count(net, nn.Dropout, nn.Dropout2d) == 0


def twice(self, x):
    y = self.conv(x)
    return self.norm(y) + y


def shared_norm(self, x):
    return F.relu(self.norm(self.conv(x))) + self.norm(self.other(x))


def shared_conv(self, x):
    return self.norm(self.conv(x)) + self.other(self.conv(x)) + self.conv(x)


def functional(self, x):
    return F.relu(F.batch_norm(self.conv(x), self.norm.running_mean, self.norm.running_var))


def weight_used(self, x):
    return self.norm(self.conv(x)) * self.conv.weight.norm()


def no_norm(self, x):
    return F.dropout(self.conv(x), 0.5, self.training)


TRAPS = {
    "conv used twice": (Trap(twice), 1),
    "norm called twice": (Trap(shared_norm, other=nn.Conv2d(3, 4, 1)), 0),
    "conv called thrice": (Trap(shared_conv, other=nn.BatchNorm2d(4)), 0),
    "functional": (Trap(functional), 0),
    "weight used": (Trap(weight_used), 0),
    "functional dropout": (Trap(no_norm), 0),
    "transposed": (nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), 1),
    "norm first": (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3)), 1),
    "no statistics": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)),
        1,
    ),
    # the BatchNorm scales rows here, of which there are as many as the linear layer has outputs
    "linear over rows": (nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 24), nn.BatchNorm1d(24)), 1),
    "parametrised": (
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), nn.BatchNorm2d(4)),
        1,
    ),
}


@pytest.mark.parametrize(("model", "norms_left"), TRAPS.values(), ids=TRAPS)
def test_what_cannot_be_folded_is_left_alone(model, norms_left):
    assert_equal_answers(lived_in(model), images(3, 3, 8, 8), norms_left)


def hooked():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model[0].register_forward_hook(lambda module, inputs, output: output * 2)
    return model


def old_weight_norm():
    with pytest.warns(FutureWarning):
        return nn.Sequential(nn.utils.weight_norm(nn.Conv2d(3, 4, 3)), nn.BatchNorm2d(4))


def replaced_forward():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model[1].forward = lambda x: x
    return model


class KeptInTraining(nn.Sequential):
    def train(self, mode=True):
        super().train(mode)
        self[1].training = True
        return self


class Uncopyable(nn.Conv2d):
    def __deepcopy__(self, memo):
        raise TypeError("not to be copied")


REFUSED = {
    "hook": (hooked, "hooks are registered on 0"),
    "old weight norm": (old_weight_norm, "hooks are registered on 0"),
    "replaced forward": (replaced_forward, "hooks are registered on 1"),
    "values decide": (lambda: Trap(lambda self, x: self.conv(x) if x.sum() > 0 else x), "traced"),
    "shapes decide": (
        lambda: Trap(lambda self, x: self.conv(x) if x.shape[1] == 3 else x),
        "traced",
    ),
    "chance": (
        lambda: Trap(lambda self, x: self.conv(x) + torch.randn(4, 8, 8)),
        "^its forward makes 1 tensors of its own",
    ),
    "chance as a number": (
        lambda: Trap(lambda self, x: self.conv(x) * float(torch.randn(()))),
        "other answers",
    ),
    "types decide": (
        lambda: Trap(lambda self, x: self.conv(x) * (2 if isinstance(x, torch.Tensor) else 1)),
        "other",
    ),
    "two values": (lambda: Trap(lambda self, x: (self.conv(x), x)), "one tensor"),
    "wrong input": (lambda: nn.Conv2d(7, 4, 3), "traced"),
    "kept in training": (
        lambda: KeptInTraining(nn.Conv2d(3, 4, 3), nn.Dropout()),
        "stays in training mode",
    ),
    "no copy": (lambda: Uncopyable(3, 4, 3), "not to be copied"),
    "NaN": (lambda: Trap(lambda self, x: self.conv(x) * float("nan")), "other answers"),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=REFUSED)
def test_networks_that_cannot_be_folded_are_refused_with_a_reason(make, reason):
    torch.manual_seed(0)
    with pytest.raises(CannotFold, match=reason):
        fold(make(), images(2, 3, 8, 8))
