"""Sun et al.: which images are discarded, how the others are weighed, and noise that keeps its length."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import beta, norm
from torch import nn

from smoothcert.attacks.sphere import sphere_attack
from smoothcert.data import Batches, Dataset
from smoothcert.errors import ConfigError
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress, Shares
from smoothcert.methods.sun import reweighted
from smoothcert.training.ranks import Ranks
from smoothcert.training.shares import shares_of_copies, shares_of_soft_labels
from tests.methods.every import batch, network
from tests.training.tiny import SOFT, tiny, train


def test_weights_are_radii_of_the_lower_bound():
    found = reweighted(torch.arange(17) / 16)
    expected = [norm.ppf(beta.ppf(0.1, max(k, 12), 17 - max(k, 12))) for k in range(17)]
    assert found.tolist() == pytest.approx(expected, rel=1e-9)
    assert found[12:].tolist() == pytest.approx([0.154, 0.329, 0.526, 0.765, 1.108], abs=5e-4)
    assert (
        reweighted(torch.tensor([0.86])).tolist() == found[13:14].tolist()
    )  # rounded down to sixteenths


class Told:
    """Shares that are given, and a record of who asked for them."""

    def __init__(self, p, soft=None):
        self.asked = []
        self.shares = Shares(
            lambda n: (self.asked.append(n), p)[1], lambda: (self.asked.append("soft"), soft)[1]
        )


def follow(told, epochs=26, **settings):
    """The weights of each epoch."""
    method, found = (
        build_method({"name": "sun", "deferred": 3, "threshold": 0.4, **settings}),
        [None],
    )
    for epoch in range(epochs):
        found.append(method.sampling(Progress(epoch, epochs), found[-1], told.shares))
    return found[1:]


P = torch.tensor([0.39, 0.4, 13 / 16, 1.0], dtype=torch.float64)


def test_images_are_discarded_once_and_the_others_weighed_every_tenth_epoch():
    told = Told(P)
    weights = follow(told)
    assert told.asked == [100, 16, 16, 16]  # in epoch 3; in epochs 13 and 23
    assert weights[:3] == [None] * 3
    assert torch.equal(weights[3], reweighted(P) * torch.tensor([0, 1, 1, 1]))
    assert all(torch.equal(later, weights[3]) for later in weights[4:])


def test_what_is_discarded_never_comes_back():
    method = build_method({"name": "sun", "deferred": 3, "threshold": 0.4})
    before = torch.tensor([0.0, 0.2, 0.3, 0.0], dtype=torch.float64)
    sure = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    found = method.sampling(Progress(13, 90), before, Told(sure).shares)
    assert found.tolist() == pytest.approx([0.0, 0.154, 1.108, 0.0], abs=5e-4)


def test_without_reweighting_all_that_are_left_are_equal():
    told = Told(P, soft=torch.tensor([1.0, 0.1, 0.5, 0.4], dtype=torch.float64))
    weights = follow(told, reweight_every=None, discard_by="soft-labels", deferred=0)
    assert told.asked == ["soft"]
    assert all(found.tolist() == [1, 0, 1, 1] for found in weights)


def test_nothing_left_is_refused():
    with pytest.raises(ConfigError, match=r"none has 0\.4 .* at most 0\.2 are.*lower threshold"):
        follow(Told(torch.full((4,), 0.2)))


def test_shares_of_soft_labels_are_those_of_the_label():
    counts = np.array([[6, 2, 2], [0, 10, 0], [3, 3, 4]], dtype=np.uint16)
    assert shares_of_soft_labels(counts, np.array([0, 0, 2])).tolist() == [0.6, 0.0, 0.4]


def test_images_are_discarded_by_the_soft_labels_of_the_run(tmp_path):
    method = {"name": "sun", "noises": 2, "steps": 1, "deferred": 0, "threshold": 0.9}
    method |= {"reweight_every": None, "discard_by": "soft-labels"}
    config = dataclasses.replace(
        SOFT, method=method, soft_labels={"n": 40, "epochs": 1, "lr": 0.003}
    )
    run = train(tmp_path / "run", config, test=None)
    counts = np.load(run.path / "soft-labels" / "counts.npy")
    sure = counts[np.arange(150), tiny().labels] >= 36  # of 40 votes
    assert 0 < sure.sum() < 150
    assert run.load_state()["sampling"].tolist() == sure.tolist()


class Bright(nn.Module):
    """Class 1 where the mean pixel is above 0.5: under noise with probability Phi((mean - 0.5) sqrt(d) / sigma)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(
            1, affine=False
        )  # in train mode it would answer by the rest of the batch

    def forward(self, x):
        brighter = (self.norm(x) * (1 + 1e-5) ** 0.5).flatten(1).mean(1) - 0.5
        return torch.stack([-brighter, brighter], dim=1)


@pytest.mark.parametrize("world", [1, 2])
def test_shares_are_those_of_a_classifier_that_can_be_solved(world):
    """Three batches of which the last is filled up for two ranks; each rank here sums the shares of both by itself."""
    levels = np.linspace(100, 155, 21).round().astype(np.uint8)
    data = Dataset(
        "grey",
        "train",
        np.tile(levels[:, None, None, None], (1, 1, 8, 8)),
        np.ones(21, dtype=int),
        2,
    )
    model, copies, calls = Bright().train(), 400, []

    class Together(Ranks):
        def sum(self, values):
            parts.append(values)
            return sum(parts)

    parts = []
    for rank in range(world):
        batches = Batches(data, 9, seed=0, rank=rank, world_size=world).epoch(0)
        ranks = Together(torch.device("cpu"), rank, world)
        found = shares_of_copies(model, batches, 21, 0.8, copies, ranks, lambda: calls.append(1))
    exact = norm.cdf((levels / 255 - 0.5) * 8 / 0.8)
    assert np.abs(found.numpy() - exact).max() < 4.5 * 0.5 / copies**0.5
    doubled = found * 2 * copies  # whole votes, or halves where an image was seen twice
    assert torch.allclose(doubled, doubled.round(), atol=1e-9)
    assert found.unique().numel() > 15
    assert len(calls) == 3 * world
    assert model.norm.num_batches_tracked == 0
    assert model.training


def test_attacked_noise_keeps_its_length_and_what_was_wrong_is_not_touched():
    model, data = network(), batch(32)
    noise = 0.5 * torch.randn(3, *data.images.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        right = (
            model.eval()((data.images + noise).flatten(0, 1)).argmax(1).view(3, -1) == data.labels
        )
    found = sphere_attack(model.train(), data.images, data.labels, noise, epsilon=0.25, steps=4)
    assert torch.allclose(found.flatten(2).norm(dim=2), noise.flatten(2).norm(dim=2), rtol=1e-5)
    moved = (found - noise).flatten(2).norm(dim=2)
    assert 0 < right.sum() < right.numel()
    assert (moved[~right] < 1e-5).all()
    assert ((moved[right] > 0.2) & (moved[right] < 1.0)).all()
