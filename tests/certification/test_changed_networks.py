"""A network that has changed: sampled anew, and kept out of a store of what it was before."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.data import load_dataset
from smoothcert.errors import NoFunctionError, StoreError
from smoothcert.runs.selection import Selection
from tests.networks import SHAPE, Linear
from tests.results import certify_with

SETTINGS = {"sigma": 0.5, "n0": 10, "n": 100, "alpha": 0.01, "quiet": True}


class Masked(nn.Module):
    """A buffer with infinite or huge values, as masks of attention are."""

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", torch.tensor([mask, 0.0]))
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        return self.fc(x.flatten(1))


@pytest.mark.parametrize("mask", [-torch.inf, torch.finfo(torch.float32).min, torch.nan])
def test_no_value_of_a_buffer_hides_a_change_of_the_weights(mask):
    model, image = Masked(mask), torch.full(SHAPE, 128, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, CertifyConfig(0.1, n0=10, n=50))
    smoothed.certify(image)
    for wanted in (0, 1):
        with torch.no_grad():
            model.fc.bias.data = torch.tensor([100.0, 0.0] if wanted == 0 else [0.0, 100.0])
        assert smoothed.certify(image).selected == wanted


def test_a_replaced_hook_or_forward_is_seen():
    model, image = Linear(), torch.full(SHAPE, 128, dtype=torch.uint8)
    smoothed = SmoothedClassifier(model, CertifyConfig(0.1, n0=10, n=50))
    for wanted in (0, 1, 0, 1):
        handle = model.register_forward_hook(
            lambda _, __, y, c=wanted: F.one_hot(torch.full((len(y),), c), 2).float()
        )
        assert smoothed.certify(image).selected == wanted
        handle.remove()
    for wanted in (0, 1):
        model.forward = lambda x, c=wanted: F.one_hot(torch.full((len(x),), c), 2).float()
        assert smoothed.certify(image).selected == wanted


class Attributed(nn.Module):
    def __init__(self, sign, shift=0.0, hidden=1.0):
        super().__init__()
        self.sign = sign
        self.fc = nn.Linear(784, 10)
        nn.init.constant_(self.fc.bias, 0.0)
        self.fc.weight.data = torch.linspace(-1, 1, 7840).sin().view(10, 784)
        self.register_buffer("hidden", torch.full((), hidden), persistent=False)
        self.shift = [shift]  # neither a plain attribute nor a tensor

    def forward(self, x):
        return self.sign * self.hidden * self.fc(x.flatten(1)) + self.shift[0] * torch.arange(10)


class OtherForward(Attributed):
    def forward(self, x):
        return super().forward(x).flip(1)


OtherForward.__name__ = OtherForward.__qualname__ = "Attributed"


@pytest.mark.parametrize(
    "other",
    [Attributed(-1.0), Attributed(1.0, shift=3.0), Attributed(1.0, hidden=-1.0), OtherForward(1.0)],
)
def test_a_store_takes_no_rows_of_a_network_that_behaves_otherwise(tmp_path, other):
    """All have the same weights and the same repr."""
    data = load_dataset("mnist-mini")
    certify_with(
        Attributed(1.0), data, tmp_path, selection=Selection(max=4, shard=0, shards=2), **SETTINGS
    )
    with pytest.raises(StoreError, match="behaviour: the network answers probe images differently"):
        certify_with(
            other, data, tmp_path, selection=Selection(max=4, shard=1, shards=2), **SETTINGS
        )
    certify_with(
        Attributed(1.0), data, tmp_path, selection=Selection(max=4, shard=1, shards=2), **SETTINGS
    )


class SelfChanging(nn.Module):
    """Flips its answer after some calls, by a count that it keeps in one of many ways, which tracing may drop."""

    def __init__(self, traced):
        super().__init__()
        self.traced = traced
        torch.manual_seed(0)
        self.fc, self.calls = nn.Linear(784, 10), 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if not self.traced:
            assert not bool((x > 1e6).any())  # cannot be traced
        self.count(x)
        late = self.calls > 40 or bool(self.seen > 40)
        return self.fc(x.flatten(1)) * (-1 if late else 1)


class ByAttribute(SelfChanging):
    def count(self, x):
        self.calls += 1


class ByBuffer(SelfChanging):
    def count(self, x):
        self.seen += 1


class ByDrift(SelfChanging):
    def count(self, x):
        with torch.no_grad():
            self.fc.weight.data.sub_(1e-4)


@pytest.mark.parametrize(
    ("make", "named"), [(ByAttribute, "calls"), (ByBuffer, "seen"), (ByDrift, "weight")]
)
@pytest.mark.parametrize("kernels", ["auto", "off"])
@pytest.mark.parametrize("traced", [True, False])
def test_a_network_that_changes_itself_leaves_no_row(tmp_path, make, named, kernels, traced):
    data = load_dataset("mnist-mini")
    with pytest.raises(NoFunctionError, match=rf"has changed .*{named}"):
        certify_with(
            make(traced), data, tmp_path, selection=Selection(max=20), kernels=kernels, **SETTINGS
        )
    assert not list(tmp_path.glob("part-*.tsv"))


def test_a_store_takes_no_rows_after_a_change_from_outside(tmp_path):
    """A buffer is written to between two groups of images, as another thread may do."""
    model, data = Masked(0.0), load_dataset("mnist-mini")
    model.fc = nn.Linear(784, 10)
    image = data.image

    def changing(index):
        if index == 15:
            model.mask.fill_(1.0)
        return image(index)

    object.__setattr__(data, "image", changing)
    with pytest.raises(NoFunctionError, match="has changed"):
        certify_with(model, data, tmp_path, selection=Selection(max=20), **SETTINGS)
