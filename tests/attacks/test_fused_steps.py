"""The kernels of attack steps against the plain functions; by Triton's interpreter without a GPU."""

import pytest
import torch

from smoothcert.attacks import ascent, constraints, objectives
from smoothcert.devices import launching

pytest.importorskip("triton")
from smoothcert.attacks import fused

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def draw(*shape, seed=0, scale=1.0):
    return scale * torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def plain_and_fast(plain, fast, logits, *rest):
    """Losses and gradients of a weighted sum of them: plainly in float64 on the CPU, and by the kernel."""
    found = []
    for function, dtype, device in ((plain, torch.float64, "cpu"), (fast, torch.float32, DEVICE)):
        z = logits.to(device, dtype).requires_grad_()
        losses = function(
            z, *[x.to(device, dtype) if x.is_floating_point() else x.to(device) for x in rest]
        )
        weight = torch.linspace(-1, 2, losses.numel(), dtype=dtype, device=device).view_as(losses)
        (gradient,) = torch.autograd.grad((weight * losses).sum(), z)
        found += [losses.detach().double().cpu(), gradient.double().cpu()]
    return found


@pytest.mark.parametrize(
    ("noises", "samples", "classes", "beta", "scale"),
    [
        (1, 5, 10, 1.0, 3.0),
        (4, 33, 10, 1.0, 3.0),
        (2, 3, 17, 0.5, 20.0),
        (3, 2, 1000, 2.0, 1.0),
        (4, 5, 2, 1.0, 3.0),
    ],
)
def test_smoothed_nll(noises, samples, classes, beta, scale):
    logits, labels = draw(noises, samples, classes, scale=scale), torch.arange(samples) % classes
    losses, gradient, fast_losses, fast_gradient = plain_and_fast(
        lambda z, y: objectives.smoothed_nll(z, y, beta),
        lambda z, y: fused.smoothed_nll(z, y, beta),
        logits,
        labels,
    )
    assert torch.allclose(fast_losses, losses, rtol=1e-5, atol=1e-5)
    assert torch.allclose(fast_gradient, gradient, rtol=1e-4, atol=1e-6)


def test_below_the_clamp_nothing_flows_but_one_noise_has_no_clamp():
    logits, labels = torch.zeros(4, 2, 10, dtype=torch.float64), torch.tensor([3, 4])
    logits[:, 0, 3] = -80.0  # the mean probability of the label is far below 1e-20
    for noises in (4, 1):
        losses, gradient, fast_losses, fast_gradient = plain_and_fast(
            lambda z, y: objectives.smoothed_nll(z, y),
            lambda z, y: fused.smoothed_nll(z, y, 1.0),
            logits[:noises],
            labels,
        )
        assert torch.allclose(fast_losses, losses)
        assert torch.allclose(fast_gradient, gradient, atol=1e-7)
        assert bool((fast_gradient[:, 0] == 0).all()) == (noises == 4)


def test_divergence_with_classes_of_no_weight():
    logits, target = draw(4, 7, 10, scale=4.0), draw(7, 10, seed=1).softmax(-1)
    target[0] = 0
    target[0, 3] = 1
    losses, gradient, fast_losses, fast_gradient = plain_and_fast(
        objectives.divergence, fused.divergence, logits, target
    )
    assert torch.allclose(fast_losses, losses, rtol=1e-5, atol=1e-5)
    assert torch.allclose(fast_gradient, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # the interpreter's NumPy warns of what is meant here
def test_not_a_number_is_not_hidden():
    logits, labels = torch.zeros(2, 3, 10, device=DEVICE), torch.arange(3, device=DEVICE)
    logits[1, 1, 5] = float("nan")
    losses = fused.smoothed_nll(logits, labels, 1.0)
    assert losses.isnan().tolist() == [False, True, False]
    for wrong in (-1, 10):  # labels that are no classes
        labels[0] = wrong
        assert fused.smoothed_nll(logits, labels, 1.0).isnan().tolist() == [True, True, False]
    images = torch.full((2, 1, 4, 4), 0.5, device=DEVICE)
    gradient = torch.ones_like(images)
    for bad in ("nan", "inf"):
        gradient[1, 0, 0, 0] = float(bad)
        found = fused.step_up(images, gradient, constraints.Within(images, 0.5), step=0.1)
        assert found.flatten(1).isnan().all(1).tolist() == [False, True]


STEPS = {
    "ball, then clamp": (constraints.Within, {"radius": 0.5}),
    "clamp, then ball": (constraints.Within, {"radius": 0.5, "clamp": "first"}),
    "no clamp": (constraints.Within, {"radius": 0.5, "clamp": "never"}),
    "no ball": (constraints.Within, {"radius": None}),
    "like noise": (constraints.GaussianLike, {"radius": 0.5}),
}


@pytest.mark.parametrize("case", STEPS)
@pytest.mark.parametrize("step", [0.1, 3.0])  # inside of the ball, and far outside
@pytest.mark.parametrize("random", [False, True])
def test_a_step_is_direction_and_constraint(case, step, random):
    kind, settings = STEPS[case]
    start = draw(3, 2, 5, 7).sigmoid()
    point, gradient = start + 0.01 * draw(3, 2, 5, 7, seed=1), draw(3, 2, 5, 7, seed=2)
    gradient[1] = 0
    where_zero = draw(3, 2, 5, 7, seed=3)
    length = constraints.norms(gradient)
    direction = (
        torch.where(length == 0, where_zero, gradient / length)
        if random
        else gradient / (length + 1e-3)
    )
    expected = kind(start, **settings)(point + step * direction)
    x, g, centre = (tensor.float().to(DEVICE) for tensor in (point, gradient, start))
    chance = where_zero.float().to(DEVICE) if random else None
    found = fused.step_up(x, g, kind(centre, **settings), step=step, offset=1e-3, random=chance)
    assert torch.allclose(found.double().cpu(), expected, atol=1e-5)


def test_a_step_as_printed_stays_where_there_is_no_gradient():
    images = torch.full((2, 1, 4, 4), 0.5, device=DEVICE)
    gradient = torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)]).to(DEVICE)
    ball = constraints.Within(images, 3.0, "never")
    found = fused.step_up(images, gradient, ball, step=2.0, offset=ascent.NO_OFFSET)
    assert torch.equal(found[0], images[0])
    assert torch.allclose(found[1], torch.ones_like(found[1]))  # 2 / ||(1, ..., 1)|| = 0.5


def attacked(constraint, device):
    start, slope, labels = draw(6, 1, 8, 8).float(), draw(64, 10, seed=1).float(), torch.arange(6)
    x, w, y, noise = (
        t.to(device) for t in (start, slope, labels, draw(4, 6, 1, 8, 8, seed=2).float())
    )

    def objective(point):
        logits = (point + noise).flatten(2) @ w
        return objectives.smoothed_nll(logits, y) + objectives.divergence(
            logits, w[:6].softmax(-1)
        ).sum(0)

    gradient = ascent.input_gradient(objective)
    return ascent.ascend(gradient, x, steps=5, step=0.2, constrain=constraint(x, 0.5)).cpu() - start


class Box(constraints.Within):
    """A rule of one's own, which no kernel knows."""

    def __call__(self, point):
        return self.centre + (point - self.centre).clamp(-0.01, 0.01)


@pytest.mark.parametrize("constraint", [constraints.Within, constraints.GaussianLike, Box])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_an_attack_by_kernels_ends_where_the_plain_one_does(constraint, device, monkeypatch):
    expected = attacked(constraint, "cpu")
    assert float(expected.abs().max()) > 0.005
    used = []
    if device == "cpu":
        if torch.cuda.is_available():
            pytest.skip("the interpreter, as if it were a GPU, is for machines without one")
        monkeypatch.setattr(launching, "runs_triton", lambda _: True)
    for name in ("smoothed_nll", "divergence", "step_up"):
        kernel = getattr(fused, name)
        monkeypatch.setattr(
            fused,
            name,
            lambda *a, name=name, kernel=kernel, **k: used.append(name) or kernel(*a, **k),
        )
    assert torch.allclose(attacked(constraint, device), expected, atol=1e-4)
    assert set(used) == {"smoothed_nll", "divergence", "step_up"} - (
        {"step_up"} if constraint is Box else set()
    )
    used.clear()
    with launching.kernels_switched("off"):
        attacked(constraint, device)
        with launching.kernels_switched("auto"):
            assert launching.may_launch(torch.device(device))
        assert not launching.may_launch(torch.device(device))  # as before the inner one
    assert not used
    assert launching.may_launch(torch.device(device))


def test_no_images_are_no_error():
    none = torch.zeros(0, 1, 8, 8)
    gradient = ascent.input_gradient(lambda point: point.flatten(1).sum(1))
    assert (
        ascent.ascend(
            gradient, none, steps=2, step=0.1, constrain=constraints.Within(none, 0.5)
        ).shape
        == none.shape
    )


def test_one_target_or_centre_serves_all():
    logits, target = draw(3, 4, 10).float().to(DEVICE), draw(1, 10).softmax(-1).float().to(DEVICE)
    assert torch.equal(
        fused.divergence(logits, target),
        fused.divergence(logits, target.expand(4, 10).contiguous()),
    )
    point, gradient, centre = (
        draw(*shape).float().to(DEVICE) for shape in ((3, 20), (3, 20), (1, 20))
    )
    found = fused.step_up(point, gradient, constraints.Within(centre, 0.5), step=0.1)
    all_three = fused.step_up(
        point, gradient, constraints.Within(centre.expand(3, 20), 0.5), step=0.1
    )
    assert torch.equal(found, all_three)
