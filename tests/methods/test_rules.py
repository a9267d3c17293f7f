"""What the formulas do not show: steps a batch, warm-ups, deferral, dropped margins, modes, noise used twice."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from smoothcert.attacks import constraints
from smoothcert.attacks.ascent import ascend
from smoothcert.config import TrainConfig
from smoothcert.data.batches import Batch
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.training.fit import fit
from tests.training.tiny import TinyNet, tiny

EVERY = [
    {"name": "gaussian"},
    {"name": "stability"},
    {"name": "smoothadv", "noises": 2, "steps": 2},
    {"name": "smoothadv", "noises": 2, "steps": 2, "attack": "ddn"},
    {"name": "smoothadv", "noises": 2, "steps": 2, "attack": "stein"},
    {"name": "macer", "noises": 4},
    {"name": "consistency"},
    {"name": "consistency", "base": "smoothadv", "steps": 2},
    {"name": "smoothmix", "noises": 2, "steps": 2, "one_step": True},
    {"name": "catrs", "noises": 2, "steps": 2},
]
IDS = ["-".join(str(value) for value in settings.values()) for settings in EVERY]


def batch(size=8, seed=0, dtype=torch.float32):
    data = tiny(size=size, seed=seed)
    images = torch.from_numpy(data.images).to(dtype) / 255
    soft = torch.full((size, 4), 0.1).scatter(1, torch.from_numpy(data.labels)[:, None], 0.7)
    return Batch(images, torch.from_numpy(data.labels), torch.arange(size), torch.Generator().manual_seed(3), soft)


def network(seed=0):
    torch.manual_seed(seed)
    net = TinyNet()
    net.body[4].p = 0.0  # its draws would hide the differences looked for here
    return net.train()


class Watch(TorchDispatchMode):
    """Lets every operation through except those between host and device, or whose shape depends on a value."""

    READS = ("aten._local_scalar_dense", "aten.nonzero", "aten.is_nonzero", "aten.masked_select", "aten.equal")
    WRITES = ("aten.lift_fresh",)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        waits = name.startswith(self.READS + self.WRITES)
        if name.startswith(("aten.index.", "aten.index_put")):  # by a mask, whose shape depends on values
            waits = any(isinstance(entry, torch.Tensor) and entry.dtype == torch.bool for entry in args[1])
        assert not waits, f"{name} waits for the device"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_no_loss_waits_for_the_device(settings):
    """Neither .item() nor a branch on a value, so that a step can become a CUDA graph."""
    model, data = network(), batch()
    with Watch():
        build_method(settings).loss(model, data, 0.25, Progress(0, 2)).total.backward()


def test_the_watch_sees_what_it_is_for():
    with Watch():
        for wait in (
            lambda x: x.sum().item(),
            lambda x: bool(x.any()),
            lambda x: x[x > 0],
            lambda x: x.new_tensor([1.0]),
        ):
            with pytest.raises(AssertionError, match="waits for the device"):
                wait(torch.rand(3))


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_training_mode_and_parameters_are_left_as_they_were(settings):
    model = network()
    losses = build_method(settings).loss(model, batch(), 0.25, Progress(20, 90))
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    losses.total.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert losses.total.isfinite()
    assert all(value.ndim == 0 for value in losses.terms.values())


FORWARDS = [1, 2, 1, 1, 1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(("settings", "forwards"), list(zip(EVERY, FORWARDS, strict=True)), ids=IDS)
def test_batchnorm_counts_the_training_forwards_alone(settings, forwards):
    model = network()
    build_method(settings).loss(model, batch(), 0.25, Progress(20, 90))
    assert int(model.body[1].num_batches_tracked) == forwards


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_all_randomness_comes_from_the_batch(settings):
    values = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        state = torch.get_rng_state()
        model = network()
        torch.set_rng_state(state)
        values.append(build_method(settings).loss(model, batch(), 0.25, Progress(0, 2)).total.item())
        assert torch.equal(torch.get_rng_state(), state)
    assert values[0] == values[1]


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
    ],
)
def test_a_loaded_batch_makes_m_optimiser_steps(settings, steps, tmp_path, monkeypatch):
    taken = []
    real = torch.optim.SGD.step
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self, *a: (taken.append(1), real(self, *a)))
    config = TrainConfig(
        "tiny", "tests.training.tiny.TinyNet", 0.25, settings, epochs=1, batch_size=32, evaluate_every=0
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
        "smoothcert.methods.smoothadv.pgd", lambda *a, **options: (asked.append(options["epsilon"]), a[1])[1]
    )
    build_method({"name": "smoothadv", "noises": 1}).loss(network(), batch(), 0.25, Progress(epoch, 90))
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
        losses = build_method({"name": "macer", "noises": 2, **settings}).loss(model, data, 0.5, Progress(0, 1))
        losses.total.backward()
        assert model.scale.grad.isfinite()
        return losses.terms["robust"].item()

    q = torch.softmax(torch.tensor([4.0, 0.0, -4.0, -8.0]), 0)
    normal = torch.distributions.Normal(0.0, 1.0)
    margin = float(normal.icdf(q[0]) - normal.icdf(q[1]))
    two_of_four = 0.5 / 2 * (8 - margin) * 2 / 4  # sigma/2 (gamma - xi): the images with label 0, over all four
    assert robust(0.25) == pytest.approx(two_of_four, rel=1e-4)  # beta is 16
    assert robust(0.25, gamma=margin - 0.1) == 0.0
    assert robust(0.25, gamma=margin + 0.1) > 0.0
    assert robust(2.0) == 0.0  # softmax is exactly 1 in float32, its quantile infinite: dropped, and no NaN


def test_macers_deferral_counts_epochs():
    """Published as 'deferred 30', which with the late drop of the rate means 31 epochs: 0 to 30."""
    method = build_method({"name": "macer", "noises": 2, "deferred": 31})
    data = dataclasses.replace(batch(), labels=torch.zeros(8, dtype=torch.int64))
    terms = [method.loss(Fixed(0.25), data, 0.25, Progress(epoch, 90)).terms["robust"].item() for epoch in (30, 31)]
    assert terms[0] == 0.0
    assert terms[1] > 0.0


def test_smoothmix_one_step_needs_no_second_step():
    """With T = 1 the published loop forgets the one-step point; the ImageNet rows mean x~(1), drawn back to 1.0."""
    spy, data = Spy(network()), batch()
    settings = {"name": "smoothmix", "noises": 1, "steps": 1, "alpha": 8.0, "one_step": True, "one_step_radius": 1.0}
    build_method(settings).loss(spy, data, 1e-9, Progress(20, 90))
    start = next(x for training, x in spy.seen if training)
    moved = (start - data.images).flatten(1).norm(dim=1)
    assert (moved > 0.3).all()
    assert (moved <= 1.0 + 1e-5).all()


def test_smoothmix_mixes_at_most_half_way_and_each_image_by_itself():
    spy, data = Spy(network()), batch(64)
    build_method({"name": "smoothmix", "noises": 1, "steps": 1}).loss(spy, data, 1e-9, Progress(20, 90))
    (_, start), (_, mixed) = [(training, x) for training, x in spy.seen if training]
    moved = (mixed - start).flatten(1).norm(dim=1)
    assert len(moved.unique()) == 64
    assert (moved <= 0.5 + 1e-5).all()
    assert moved.max() > 0.4


def test_worst_case_noise_keeps_its_mean_and_scale():
    generator = torch.Generator().manual_seed(0)
    noise = 0.5 * torch.randn(5, 3, 32, 32, generator=generator, dtype=torch.float64)
    push = torch.randn(noise.shape, generator=generator, dtype=torch.float64)
    found = ascend(lambda x: push + 0.1, noise, steps=4, step=0.5, constrain=constraints.GaussianLike(noise, 1.0))
    dims = (1, 2, 3)
    assert torch.allclose(found.mean(dims), noise.mean(dims), atol=1e-12)
    assert torch.allclose(found.square().mean(dims).sqrt(), noise.square().mean(dims).sqrt(), rtol=1e-3)
    moved = (found - noise).flatten(1).norm(dim=1)
    assert (moved > 0.5).all()
    assert (moved < 1.1).all()  # the rescaling may leave the ball a little


def test_catrs_without_soft_labels_says_so():
    data = dataclasses.replace(batch(), soft_labels=None)
    with pytest.raises(Exception, match="reads soft labels, which this batch does not have"):
        build_method({"name": "catrs", "noises": 2, "steps": 1}).loss(network(), data, 0.25, Progress(0, 1))


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


@pytest.mark.parametrize("settings", EVERY, ids=IDS)
def test_every_method_learns(settings, tmp_path):
    """A sign or a scale gone wrong shows here, whatever the formulas say."""
    more = {"soft_labels": {"n": 20, "epochs": 2}} if settings["name"] == "catrs" else {}
    config = TrainConfig(
        "tiny",
        "tests.training.tiny.TinyNet",
        0.25,
        settings,
        epochs=4,
        batch_size=16,
        lr=0.05,
        evaluate_every=4,
        **more,
    )
    run = fit(config, tmp_path / "run", train=tiny(), test=tiny("test", 64, 1), device="cpu", quiet=True)
    assert run.records("metrics.jsonl")[-1]["noisy_test_accuracy"] > 0.8
