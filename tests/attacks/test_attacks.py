"""Attacks against closed forms on linear models, against loops by hand, and in what they must leave alone."""

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.attacks import ascent, constraints, objectives
from smoothcert.attacks.ddn import ddn, ddn_test_gamma
from smoothcert.errors import ConfigError
from tests.methods import literal

SIGMA = 0.3


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


def linear(weights, bias):
    """A linear classifier of images [1, 4, 4] with the given rows and biases."""
    layer = nn.Linear(16, len(bias)).double()
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weights))
        layer.bias.copy_(torch.as_tensor(bias))
    return nn.Sequential(nn.Flatten(), layer)


def two_classes(margin):
    """Class 1 wins where w.x > threshold; at the grey image its logit is ahead by `margin`. Returns also w / ||w||."""
    w = np.random.default_rng(0).normal(size=16)
    shift = margin - 0.5 * w.sum()
    return (
        linear(np.stack([-w / 2, w / 2]), [-shift / 2, shift / 2]),
        torch.from_numpy(w / np.linalg.norm(w)),
        w,
    )


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def data(size=5, m=3, seed=0):
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(np.round(rng.random((size, 1, 4, 4)) * 255) / 255)
    labels = torch.from_numpy(rng.integers(0, 3, size))
    return images, labels, torch.from_numpy(SIGMA * rng.normal(size=(m, size, 1, 4, 4)))


def flat(images, labels, noise):
    """The same for the loops: lists of flat arrays, noise image-major."""
    return images.flatten(1).numpy(), labels.tolist(), noise.flatten(2).transpose(0, 1).numpy()


class WithBatchNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
        )

    def forward(self, x):
        return self.body(x)


# ---- closed forms


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_pgd_reaches_the_best_point_of_a_linear_model(m, steps):
    """The smoothed loss of a linear model grows along -w alone, so the answer is x - epsilon w / ||w|| exactly."""
    model, direction, _ = two_classes(margin=1.0)
    images = torch.full((2, 1, 4, 4), 0.5, dtype=torch.float64)
    noise = SIGMA * torch.randn(m, 2, 1, 4, 4, generator=generator(), dtype=torch.float64)
    labels = torch.ones(2, dtype=torch.int64)
    found = ascent.pgd(
        model, images, labels, noise, epsilon=0.2, steps=steps, generator=generator()
    )
    assert torch.allclose(found, images - 0.2 * direction.view(1, 4, 4), atol=1e-12)


@pytest.mark.parametrize(
    ("clamp", "expected"),
    [
        ("never", [1.2, 0.9]),  # two steps of (0.3, 0.4) from (0.9, 0.5), drawn back to length 0.5
        (
            "last",
            [1.0, 0.5 + 0.8 * 0.5 / 0.8**0.5],
        ),  # the second step leads to (0.4, 0.8) away, drawn back, then cut
        (
            "first",
            [0.9 + 0.05 / 0.26**0.5, 0.5 + 0.25 / 0.26**0.5],
        ),  # cut to (0.1, 0.5) away, then drawn back
    ],
)
def test_each_order_of_clamp_and_projection_has_its_own_answer(clamp, expected):
    images, g = torch.tensor([[[[0.9, 0.5]]]]), torch.tensor([[[[3.0, 4.0]]]])
    found = ascent.ascend(
        lambda x: g, images, steps=2, step=0.5, constrain=constraints.Within(images, 0.5, clamp)
    )
    assert found.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_ddn_finds_the_nearest_misclassified_image_of_a_linear_model():
    """Distance to the boundary is margin / ||w||; with many steps DDN comes within a few grey levels of it."""
    model, direction, w = two_classes(margin=1.0)
    distance = 1.0 / np.linalg.norm(w)
    images = torch.full((3, 1, 4, 4), 0.5, dtype=torch.float64)
    labels = torch.ones(3, dtype=torch.int64)
    noise = torch.zeros(1, 3, 1, 4, 4, dtype=torch.float64)
    found = ddn(model, images, labels, noise, epsilon=1.0, steps=100, generator=generator())
    assert (model(found).argmax(1) == 0).all()
    d = (found - images).flatten(1)
    assert d.norm(dim=1).numpy() == pytest.approx(distance, rel=0.06)
    assert (d / d.norm(dim=1, keepdim=True) @ direction).numpy() == pytest.approx(-1.0, abs=0.01)
    assert torch.equal(found, torch.round(found * 255) / 255)


def test_ddn_leaves_what_it_cannot_change_and_what_is_already_wrong():
    model, _, _ = two_classes(margin=1e6)
    images = torch.full((2, 1, 4, 4), 128 / 255, dtype=torch.float64)
    noise = torch.zeros(1, 2, 1, 4, 4, dtype=torch.float64)
    for labels in (torch.ones(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)):
        found = ddn(model, images, labels, noise, epsilon=1.0, steps=10, generator=generator())
        assert torch.allclose(found, images, atol=1e-12)


def test_the_gradient_free_estimate_points_along_the_gradient():
    model, direction, _ = two_classes(margin=0.0)
    images = torch.full((1, 1, 4, 4), 0.5, dtype=torch.float64)
    labels = torch.ones(1, dtype=torch.int64)
    angles = []
    for m in (100, 10_000):
        noise = SIGMA * torch.randn(m, 1, 1, 4, 4, generator=generator(), dtype=torch.float64)
        g = ascent.stein_gradient(model, labels, noise)(images).flatten()
        angles.append(float(g / g.norm() @ direction))
    assert angles[1] < -0.99
    assert angles[1] < angles[0]


@pytest.mark.parametrize("margin", [0.0, 0.4, -0.3])
def test_hard_votes_give_the_gradient_of_a_smoothed_half_space(margin):
    """P(w.(x + delta) > t) = Phi(margin / sigma) for a unit w, so its gradient is phi(margin / sigma) / sigma w.

    The network is asked for nothing but its answer. Each coordinate of the estimate has a standard error of at most
    1 / (2 sigma sqrt(m)): votes less their mean have a variance of at most 1/4.
    """
    _, direction, _ = two_classes(margin=1.0)
    threshold = 0.5 * float(direction.sum()) - margin

    def answers(x):
        ahead = x.flatten(1) @ direction > threshold
        return torch.stack([~ahead, ahead], 1).double()

    m = 40_000
    noise = SIGMA * torch.randn(m, 1, 1, 4, 4, generator=generator(), dtype=torch.float64)
    images = torch.full((1, 1, 4, 4), 0.5, dtype=torch.float64)
    found = ascent.hard_vote_gradient(answers, torch.ones(1, dtype=torch.int64), noise)(
        images
    ).flatten()
    density = np.exp(-((margin / SIGMA) ** 2) / 2) / np.sqrt(2 * np.pi)
    expected = -density / SIGMA * direction  # down the probability of the label
    assert (found / SIGMA**2).numpy() == pytest.approx(
        expected.numpy(), abs=5 / (2 * SIGMA * np.sqrt(m))
    )


def test_votes_that_agree_have_no_slope():
    noise = torch.randn(8, 2, 1, 4, 4, generator=generator())
    found = ascent.hard_vote_gradient(
        lambda x: torch.eye(3)[torch.ones(len(x), dtype=int)], torch.tensor([1, 0]), noise
    )
    assert not found(torch.zeros(2, 1, 4, 4)).any()


def test_test_time_gamma_shrinks_epsilon_to_one_and_a_half_grey_levels():
    gamma = ddn_test_gamma(0.5, 20)
    assert 0.5 * (1 - gamma) ** 20 == pytest.approx(1.5 / 255)


# ---- against the loops


@pytest.mark.parametrize("beta", [1.0, 3.0])
@pytest.mark.parametrize("m", [1, 3])
def test_pgd_equals_the_loops(m, beta):
    model, (images, labels, noise) = mlp(), data(m=m)
    found = ascent.pgd(
        model, images, labels, noise, epsilon=0.7, steps=3, beta=beta, generator=generator()
    )
    for b, (x, y, deltas) in enumerate(zip(*flat(images, labels, noise), strict=True)):
        expected = literal.smoothadv_pgd(literal.Net(model), x, y, deltas, 0.7, 3, beta)
        assert found[b].flatten().numpy() == pytest.approx(expected, abs=1e-10)


def test_gradient_free_pgd_equals_the_loops():
    model, (images, labels, noise) = mlp(), data(m=6)
    found = ascent.pgd(
        model, images, labels, noise, epsilon=0.7, steps=3, gradient="stein", generator=generator()
    )
    for b, (x, y, deltas) in enumerate(zip(*flat(images, labels, noise), strict=True)):
        expected = literal.stein_pgd(literal.Net(model), x, y, deltas, 0.7, 3)
        assert found[b].flatten().numpy() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", ["smoothed", "expected"])
def test_as_printed_pgd_has_the_ball_alone(name):
    """A wide ball, so that the code's clamp to [0,1] would show."""
    model, (images, labels, noise) = mlp(), data(m=3)
    options = {"epsilon": 2.0, "steps": 3, "generator": generator(), "gradient": name}
    found = ascent.pgd(model, images, labels, noise, **options, as_printed=True)
    gradient = getattr(literal, f"{name}_gradient")
    for b, (x, y, deltas) in enumerate(zip(*flat(images, labels, noise), strict=True)):
        where = (literal.Net(model), x, y, deltas)
        expected = literal.printed_pgd(*where, 2.0, 3, gradient=gradient)
        assert found[b].flatten().numpy() == pytest.approx(expected, abs=1e-10)
    assert found.min() < 0


def test_as_printed_the_mean_vote_is_left_in():
    model, (images, labels, noise) = mlp(), data(m=6)
    found = ascent.hard_vote_gradient(model, labels, noise, as_printed=True)(images)
    for b, (x, y, deltas) in enumerate(zip(*flat(images, labels, noise), strict=True)):
        expected = literal.stein_hard_gradient(literal.Net(model), x, y, deltas)
        assert found[b].flatten().numpy() == pytest.approx(expected, abs=1e-12)
    assert found.any()
    assert not torch.allclose(found, ascent.hard_vote_gradient(model, labels, noise)(images))


def test_as_printed_a_point_without_a_gradient_stays():
    flat_model = linear(np.zeros((3, 16)), np.zeros(3))
    images, labels, noise = data(m=2)
    where = (flat_model, images, labels, noise)
    options = {"epsilon": 0.5, "steps": 2, "generator": generator()}
    assert torch.equal(ascent.pgd(*where, **options, as_printed=True), images)
    assert not torch.equal(ascent.pgd(*where, **options), images)


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_as_printed_ddn_turns_from_rate_1_to_rate_001(steps):
    model, (images, labels, noise) = mlp(), data(size=12, m=4)
    options = {"epsilon": 2.0, "steps": steps, "generator": generator(), "start": 1.0}
    found = ddn(model, images, labels, noise, **options, as_printed=True)
    rates = literal.printed_rates(steps)
    for b, (x, y, deltas) in enumerate(zip(*flat(images, labels, noise), strict=True)):
        where = (literal.Net(model), x, y, deltas, 2.0, steps)
        expected = literal.ddn(*where, start=1.0, rates=rates)
        assert found[b].flatten().numpy() == pytest.approx(expected, abs=1e-10)


def test_a_gradient_that_there_is_not_is_refused():
    model, (images, labels, noise) = mlp(), data(m=2)
    with pytest.raises(ConfigError, match="unknown gradient 'stein-soft': did you mean stein"):
        ascent.pgd(
            model,
            images,
            labels,
            noise,
            epsilon=0.7,
            steps=3,
            gradient="stein-soft",
            generator=generator(),
        )


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize(("m", "start"), [(1, None), (4, None), (4, 1.0)])
def test_ddn_equals_the_loops(m, start, epsilon):
    model, (images, labels, noise) = mlp(), data(size=12, m=m)
    found = ddn(
        model, images, labels, noise, epsilon=epsilon, steps=8, start=start, generator=generator()
    )
    for b, (x, y, deltas) in enumerate(zip(*flat(images, labels, noise), strict=True)):
        expected = literal.ddn(literal.Net(model), x, y, deltas, epsilon, 8, start=start)
        assert found[b].flatten().numpy() == pytest.approx(expected, abs=1e-10)
    assert not torch.allclose(found, images)


def test_the_smoothed_objective_is_clamped_and_a_single_noise_needs_none():
    logits = torch.tensor([[[0.0, 200.0]], [[0.0, 300.0]]])
    assert objectives.smoothed_nll(logits, torch.tensor([0])).item() == pytest.approx(
        -np.log(1e-20), rel=1e-6
    )
    assert objectives.smoothed_nll(logits[:1], torch.tensor([0])).item() == pytest.approx(200.0)


# ---- what must hold whatever the model


@pytest.mark.parametrize("name", ["smoothed", "stein", "stein-hard", "ddn"])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
def test_attacks_stay_in_the_ball_and_in_the_range_and_do_not_help_the_label(name, epsilon):
    model, (images, labels, noise) = mlp(1), data(size=20, m=64)
    options = {"epsilon": epsilon, "steps": 12, "generator": generator()}
    if name == "ddn":
        found = ddn(model, images, labels, noise, **options)
    else:
        found = ascent.pgd(model, images, labels, noise, gradient=name, **options)
    grid = (
        0.5 / 255 * 4 if name == "ddn" else 0.0
    )  # the last quantisation of 16 pixels may leave the ball by this
    assert (found - images).flatten(1).norm(dim=1).max() <= epsilon + grid + 1e-9
    assert found.min() >= 0
    assert found.max() <= 1
    before, after = (
        objectives.smoothed_nll(objectives.noisy_logits(model, x, noise), labels)
        for x in (images, found)
    )
    if name == "smoothed":
        assert (after >= before).all()
    assert (
        after.mean() >= before.mean() - 1e-12
    )  # estimates and the grid may cost a single image a little
    assert not found.requires_grad


def test_a_point_where_the_gradient_is_zero_moves_at_random_or_not_at_all():
    zero = torch.zeros(2, 1, 4, 4)
    g = torch.cat([zero[:1], zero[:1] + 2.0])
    found = ascent.unit(g, generator())
    assert torch.allclose(found[1], torch.full((1, 4, 4), 0.25))
    assert torch.equal(found[0], torch.randn(g.shape, generator=generator())[0])
    assert torch.equal(ascent.unit(g)[0], zero[0])


def test_projection_to_a_ball_of_radius_zero_is_its_centre():
    x = torch.rand(3, 1, 4, 4)
    assert torch.equal(constraints.project(x + 0.1, x, 0.0), x)
    assert torch.equal(constraints.project(x, x, 0.0), x)


def test_a_frozen_network_is_given_back_as_it_was_even_after_an_error():
    model = WithBatchNorm()
    model.train()
    model.body[0].eval()  # a module whose mode the user fixed
    next(model.parameters()).requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    with objectives.frozen(model):
        assert not any(module.training for module in model.modules())
        assert not any(parameter.requires_grad for parameter in model.parameters())
    with pytest.raises(RuntimeError, match="broken"), objectives.frozen(model):
        raise RuntimeError("broken")
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags


@pytest.mark.parametrize("attack", [ascent.pgd, ddn])
def test_attacks_do_not_touch_batchnorm_statistics_or_gradients(attack):
    model = WithBatchNorm().train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    images, labels = torch.rand(6, 1, 4, 4), torch.arange(6) % 3
    noise = SIGMA * torch.randn(4, 6, 1, 4, 4)
    with torch.no_grad():  # usable where gradients are off, as in an evaluation
        attack(model, images, labels, noise, epsilon=0.5, steps=3, generator=generator())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
