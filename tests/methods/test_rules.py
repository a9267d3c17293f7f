"""What the formulas do not show: steps per batch, warm-ups, deferral, dropped margins, modes, noise used twice."""

import dataclasses

import pytest
import torch
from torch import nn

from smoothcert.attacks import constraints
from smoothcert.attacks.ascent import ascend
from smoothcert.config import TrainConfig
from smoothcert.data.batches import Batch
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.training.fit import fit
from tests.methods.every import batch, network
from tests.training.tiny import tiny


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"name": "gaussian"}, 1),
        ({"name": "stability"}, 1),
        ({"name": "macer", "noises": 4}, 1),
        ({"name": "smoothadv", "noises": 4, "steps": 1}, 4),
        ({"name": "smoothadv", "noises": 4, "steps": 1, "multitrain": False}, 1),
        ({"name": "consistency", "noises": 3}, 3),
        ({"name": "smoothmix", "noises": 4, "steps": 1}, 4),
        ({"name": "catrs", "noises": 2, "steps": 1, "target": "label"}, 2),
        ({"name": "sun", "noises": 4}, 4),
        *(
            ({"name": name, "noises": 3, "as_printed": True, **more}, 1)
            for name, more in (
                ("smoothadv", {"steps": 1}),
                ("consistency", {}),
                ("smoothmix", {"steps": 1}),
                ("catrs", {"steps": 1, "target": "label"}),
            )
        ),
    ],
)
def test_a_loaded_batch_makes_m_optimiser_steps(settings, steps, tmp_path, monkeypatch):
    taken = []
    real = torch.optim.SGD.step
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self, *a: (taken.append(1), real(self, *a)))
    config = TrainConfig(
        "tiny",
        "tests.training.tiny.TinyNet",
        0.25,
        settings,
        epochs=1,
        batch_size=32,
        evaluate_every=0,
        as_printed=settings.get("as_printed", False),
    )
    fit(config, tmp_path / "run", train=tiny(size=70), device="cpu", quiet=True)
    assert len(taken) == 3 * steps  # batches of 32, 32 and 6 images


class Spy(nn.Module):
    """Keeps the inputs it saw, with the mode it saw them in."""

    def __init__(self, net):
        super().__init__()
        self.net, self.seen = net, []

    def forward(self, x):
        self.seen.append((self.training, x.detach().clone()))
        return self.net(x)


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "smoothadv", "noises": 3, "steps": 2},
        {"name": "consistency", "noises": 3, "base": "smoothadv", "steps": 2},
        {"name": "smoothmix", "noises": 3, "steps": 2},
    ],
    ids=lambda settings: settings["name"],
)
def test_attack_and_loss_use_the_same_noise(settings):
    """Differences between copies of an image are differences of noises, wherever the image was moved to."""
    spy, data = Spy(network()), batch()
    build_method(settings).loss(spy, data, 0.25, Progress(20, 90))
    views = [(training, x.unflatten(0, (3, -1))) for training, x in spy.seen]
    assert {training for training, _ in views} == {True, False}
    expected = views[0][1][1] - views[0][1][0]
    for _, copies in views[1:]:
        assert torch.allclose(copies[1] - copies[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("epoch", "epsilon"), [(0, 0.1), (1, 0.2), (8, 0.9), (9, 1.0), (89, 1.0)]
)  # the paper says 0 in the first epoch, the code epsilon / 10
def test_epsilon_warms_up(epoch, epsilon, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "smoothcert.methods.smoothadv.pgd",
        lambda *a, **options: (asked.append(options["epsilon"]), a[1])[1],
    )
    build_method({"name": "smoothadv", "noises": 1}).loss(
        network(), batch(), 0.25, Progress(epoch, 90)
    )
    assert asked == [pytest.approx(epsilon)]


def test_without_noise_the_network_sees_the_attacked_images_themselves():
    spy, data = Spy(network()), batch()
    settings = {"name": "smoothadv", "noises": 1, "steps": 2, "noise": "none", "epsilon": 0.0}
    build_method(settings).loss(spy, data, 0.25, Progress(20, 90))
    assert all(torch.allclose(x, data.images, atol=1e-6) for _, x in spy.seen)
    spy.seen.clear()
    build_method({**settings, "noise": "training"}).loss(spy, data, 0.25, Progress(20, 90))
    *attack, (_, trained) = spy.seen
    assert all(torch.allclose(x, data.images, atol=1e-6) for _, x in attack)
    assert (trained - data.images).std() == pytest.approx(0.25, rel=0.1)


class Fixed(nn.Module):
    """Logits by image brightness, whatever the noise; `scale` sharpens them."""

    def __init__(self, scale):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))

    def forward(self, x):
        return self.scale * torch.tensor([1.0, 0.0, -1.0, -2.0]).expand(len(x), 4)


def test_macer_drops_wrong_wide_and_infinite_margins():
    labels = torch.tensor([0, 0, 1, 2])
    images = torch.zeros(4, 1, 8, 8)
    data = Batch(images, labels, torch.arange(4), torch.Generator().manual_seed(0))

    def robust(scale, **settings):
        model = Fixed(scale)
        losses = build_method({"name": "macer", "noises": 2, **settings}).loss(
            model, data, 0.5, Progress(0, 1)
        )
        losses.total.backward()
        assert model.scale.grad.isfinite()
        return losses.terms["robust"].item()

    q = torch.softmax(torch.tensor([4.0, 0.0, -4.0, -8.0]), 0)
    normal = torch.distributions.Normal(0.0, 1.0)
    margin = float(normal.icdf(q[0]) - normal.icdf(q[1]))
    two_of_four = (
        0.5 / 2 * (8 - margin) * 2 / 4
    )  # sigma/2 (gamma - xi): the images with label 0, over all four
    assert robust(0.25) == pytest.approx(two_of_four, rel=1e-4)  # beta is 16
    assert robust(0.25, gamma=margin - 0.1) == 0.0
    assert robust(0.25, gamma=margin + 0.1) > 0.0
    assert (
        robust(2.0) == 0.0
    )  # softmax is exactly 1 in float32, its quantile infinite: dropped, and no NaN


def test_macers_deferral_counts_epochs():
    """Published as 'deferred 30', which with the late drop of the rate means 31 epochs: 0 to 30."""
    method = build_method({"name": "macer", "noises": 2, "deferred": 31})
    data = dataclasses.replace(batch(), labels=torch.zeros(8, dtype=torch.int64))
    terms = [
        method.loss(Fixed(0.25), data, 0.25, Progress(epoch, 90)).terms["robust"].item()
        for epoch in (30, 31)
    ]
    assert terms[0] == 0.0
    assert terms[1] > 0.0


def test_smoothmix_one_step_needs_no_second_step():
    """With T = 1 the published loop forgets the one-step point; the ImageNet rows mean x~(1), drawn back to 1.0."""
    spy, data = Spy(network()), batch()
    settings = {
        "name": "smoothmix",
        "noises": 1,
        "steps": 1,
        "alpha": 8.0,
        "one_step": True,
        "one_step_radius": 1.0,
    }
    build_method(settings).loss(spy, data, 1e-9, Progress(20, 90))
    start = next(x for training, x in spy.seen if training)
    moved = (start - data.images).flatten(1).norm(dim=1)
    assert (moved > 0.3).all()
    assert (moved <= 1.0 + 1e-5).all()


def test_smoothmix_mixes_at_most_half_way_and_each_image_by_itself():
    spy, data = Spy(network()), batch(64)
    build_method({"name": "smoothmix", "noises": 1, "steps": 1}).loss(
        spy, data, 1e-9, Progress(20, 90)
    )
    (_, start), (_, mixed) = [(training, x) for training, x in spy.seen if training]
    moved = (mixed - start).flatten(1).norm(dim=1)
    assert len(moved.unique()) == 64
    assert (moved <= 0.5 + 1e-5).all()
    assert moved.max() > 0.4


def test_worst_case_noise_keeps_its_mean_and_scale():
    generator = torch.Generator().manual_seed(0)
    noise = 0.5 * torch.randn(5, 3, 32, 32, generator=generator, dtype=torch.float64)
    push = torch.randn(noise.shape, generator=generator, dtype=torch.float64)
    found = ascend(
        lambda x: push + 0.1,
        noise,
        steps=4,
        step=0.5,
        constrain=constraints.GaussianLike(noise, 1.0),
    )
    dims = (1, 2, 3)
    assert torch.allclose(found.mean(dims), noise.mean(dims), atol=1e-12)
    assert torch.allclose(
        found.square().mean(dims).sqrt(), noise.square().mean(dims).sqrt(), rtol=1e-3
    )
    moved = (found - noise).flatten(1).norm(dim=1)
    assert (moved > 0.5).all()
    assert (moved < 1.1).all()  # the rescaling may leave the ball a little


def test_catrs_without_soft_labels_says_so():
    data = dataclasses.replace(batch(), soft_labels=None)
    with pytest.raises(Exception, match="reads soft labels, which this batch does not have"):
        build_method({"name": "catrs", "noises": 2, "steps": 1}).loss(
            network(), data, 0.25, Progress(0, 1)
        )


@pytest.mark.parametrize(
    ("settings", "uses"),
    [
        ({}, True),
        ({"lam": 0.0}, False),
        ({"target": "label"}, False),
        ({"target": "mean"}, False),
        ({"target": "label", "count_from": "soft-labels"}, True),
    ],
)
def test_catrs_asks_for_soft_labels_only_where_it_reads_them(settings, uses):
    method = build_method({"name": "catrs", "noises": 2, "steps": 1, **settings})
    assert method.uses_soft_labels == uses
    data = batch() if uses else dataclasses.replace(batch(), soft_labels=None)
    assert method.loss(network(), data, 0.25, Progress(0, 1)).total.isfinite()
