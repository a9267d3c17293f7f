"""Every method's loss, attack included, equals the loops of literal.py: in its value and in its gradient."""

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.data.batches import Batch
from smoothcert.methods import METHODS, build_method
from smoothcert.methods.base import Progress
from tests.methods import literal

SIGMA, SIZE, CLASSES = 0.3, 6, 3


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()


class Float64Batch(Batch):
    """Draws in the images' type: of float32 numbers the methods take norms in float32, the loops in float64."""

    def draw(self, kind, shape, images=0):
        return super().draw(kind, shape, images).to(self.images.dtype)


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(np.round(rng.random((SIZE, 1, 4, 4)) * 255) / 255)
    soft = rng.dirichlet([0.3] * CLASSES, SIZE)
    soft[0] = [0.0, 1.0, 0.0]  # a sure image: zeros in the target
    labels = np.where(rng.random(SIZE) < 0.7, answers(images), rng.integers(0, CLASSES, SIZE))
    return Float64Batch(
        images,
        torch.from_numpy(labels),
        torch.arange(SIZE),
        torch.Generator().manual_seed(5),
        torch.from_numpy(soft.astype(np.float32)),
    )


def answers(images):
    """What the network says, so that most images are answered rightly and terms for those are not empty."""
    with torch.no_grad():
        return network()(images).argmax(1).numpy()


class Draws:
    """The numbers that a method draws, in its order, as the loops want them: image-major."""

    def __init__(self, m):
        generator = torch.Generator().manual_seed(5)
        noise = SIGMA * torch.randn(m, SIZE, 1, 4, 4, generator=generator).double()
        self.noise = noise.flatten(2).transpose(0, 1).numpy()  # [B, m, 16]
        self.state = generator.get_state()

    def uniform(self, *shape):
        generator = torch.Generator().set_state(self.state)
        return torch.rand(shape, generator=generator).double().numpy()


def warm(settings, epoch):
    """epsilon in an epoch: a tenth in the first as in the code, nothing as printed."""
    passed = epoch if settings.get("as_printed") else epoch + 1
    return settings["epsilon"] * min(1.0, passed / settings.get("warmup", 10))


# Each case: (settings, epoch) -> m and a function that attacks with the network as it is and returns the loss as a
# function of the network, so that finite differences vary the weights and leave the attacked points where they are.


def gaussian(settings, epoch, x, y, soft, draws, net):
    return lambda n: literal.cross_entropy(n, x, y, draws.noise)


def stability(settings, epoch, x, y, soft, draws, net):
    return lambda n: literal.stability(n, x, y, draws.noise, settings["lam"])


def macer(settings, epoch, x, y, soft, draws, net):
    lam = settings["lam"] if epoch >= settings.get("deferred", 0) else 0.0
    loss = literal.macer_printed if settings.get("as_printed") else literal.macer
    return lambda n: loss(n, x, y, draws.noise, SIGMA, lam, settings["beta"], settings["gamma"])


def smoothadv(settings, epoch, x, y, soft, draws, net):
    epsilon = warm(settings, epoch)
    attack = {
        "pgd": literal.smoothadv_pgd,
        "expected": literal.expected_pgd,
        "ddn": literal.ddn,
        "stein": literal.stein_pgd,
    }
    find = attack[settings.get("attack", "pgd")]
    more = {"beta": settings["beta"]} if "beta" in settings else {}
    if settings.get("as_printed") and find is literal.ddn:
        more |= {"start": 1.0, "rates": literal.printed_rates(settings["steps"])}
    elif settings.get("as_printed"):
        more |= {"gradient": literal.expected_gradient} if find is literal.expected_pgd else {}
        find = literal.printed_pgd
    kind, noise = settings.get("noise", "both"), draws.noise
    if kind == "none":
        noise = 0 * noise
    seen = noise if kind == "both" else 0 * noise[:, :1]
    points = [
        find(net, x[b], y[b], seen[b], epsilon, settings["steps"], **more) for b in range(SIZE)
    ]
    kept = noise if settings.get("multitrain", True) else noise[:, :1]
    return lambda n: literal.cross_entropy(n, points, y, kept)


def consistency(settings, epoch, x, y, soft, draws, net):
    points = x
    if settings.get("base") == "smoothadv":
        own = (SIZE,)
        find = literal.consistency_pgd
        if settings.get("as_printed"):
            find, own = literal.printed_pgd, ()
        where = (warm(settings, epoch), settings["steps"], *own)
        points = [find(net, x[b], y[b], draws.noise[b], *where) for b in range(SIZE)]
    form = settings.get("form", "kl+entropy")
    return lambda n: literal.consistency(
        n, points, y, draws.noise, settings["lam"], settings["eta"], form
    )


def smoothmix(settings, epoch, x, y, soft, draws, net):
    ramp = min(1.0, (epoch + 1) / 10)
    alpha, max_norm = settings["alpha"], settings.get("max_norm")
    printed = settings.get("as_printed")
    iterates = literal.smoothmix_printed_iterates if printed else literal.smoothmix_iterates
    paths = [
        iterates(net, x[b], y[b], draws.noise[b], alpha, settings["steps"], max_norm)
        for b in range(SIZE)
    ]
    starts = list(x)
    if settings.get("one_step"):
        radius = ramp * (settings.get("one_step_radius") or alpha)
        starts = [np.clip(literal.project(paths[b][1], x[b], radius), 0, 1) for b in range(SIZE)]
    ends, mixing = [path[-1] for path in paths], 0.5 * draws.uniform(SIZE)
    if printed:
        if settings.get("one_step"):
            radius = settings.get("one_step_radius")
            firsts = [path[1] for path in paths]
            starts = [
                first if radius is None else literal.project(first, x[b], radius)
                for b, first in enumerate(firsts)
            ]
        pairs = literal.smoothmix_pairs(net, starts, ends, draws.noise, mixing)
        return lambda n: literal.smoothmix_printed(
            n, starts, pairs, y, draws.noise, settings["eta"]
        )
    return lambda n: literal.smoothmix(
        n, starts, ends, y, draws.noise, mixing, settings["eta"] * ramp
    )


def catrs(settings, epoch, x, y, soft, draws, net):
    m, noise = settings["noises"], draws.noise
    votes = [
        sum(np.argmax(net.logits(x[b] + delta)) == y[b] for delta in noise[b]) / m
        for b in range(SIZE)
    ]
    if settings.get("count_from") == "soft-labels":
        votes = [soft[b][y[b]] for b in range(SIZE)]
    throws = draws.uniform(m, SIZE)
    kept = [max(1, int(sum(throws[i][b] < votes[b] for i in range(m)))) for b in range(SIZE)]
    targets = {
        "soft-labels": soft,
        "mean": [sum(net.softmax(x[b] + delta) for delta in noise[b]) / m for b in range(SIZE)],
        "label": np.eye(CLASSES)[y],
    }[settings.get("target", "soft-labels")]
    epsilon = settings["epsilon"] * (2 if epoch >= settings.get("double_from", 1000) else 1)
    find, own = literal.catrs_noise, (m,)
    if settings.get("as_printed"):
        find, own = literal.catrs_printed_noise, ()
    where = (epsilon, settings["steps"], *own)
    worst = [[find(net, x[b], d, targets[b], *where) for d in noise[b]] for b in range(SIZE)]
    switches = {key: settings[key] for key in ("low", "high", "mask") if key in settings}
    return lambda n: literal.catrs(
        n, x, y, noise, worst, targets, kept, settings["lam"], **switches
    )


def sun(settings, epoch, x, y, soft, draws, net):
    noise = draws.noise
    if epoch >= settings["deferred"]:
        length, steps = settings["epsilon"], settings["steps"]
        noise = [
            [literal.sphere_noise(net, x[b], y[b], d, length, steps) for d in noise[b]]
            for b in range(SIZE)
        ]
    return lambda n: literal.cross_entropy(n, x, y, noise)


ADV = {"epsilon": 0.8, "steps": 3}
CONS = {"lam": 5.0, "eta": 0.5}
MIX = {"eta": 5.0, "alpha": 0.4, "steps": 3}
CAT = {"lam": 1.5, "epsilon": 0.6, "steps": 3, "noises": 3}
PRINTED = {"as_printed": True}
SUN = {"noises": 3, "deferred": 2, "epsilon": 0.4, "steps": 3}
CASES = [
    (gaussian, {}, 1, 0),
    (stability, {"lam": 2.0}, 1, 0),
    (stability, {"lam": 0.0}, 1, 0),
    (macer, {"noises": 5, "lam": 6.0, "beta": 4.0, "gamma": 8.0}, 5, 0),
    (
        macer,
        {"noises": 5, "lam": 6.0, "beta": 16.0, "gamma": 1.0},
        5,
        3,
    ),  # most margins above gamma: dropped
    (macer, {"noises": 2, "lam": 6.0, "beta": 4.0, "gamma": 8.0, "deferred": 4}, 2, 3),
    (macer, {"noises": 2, "lam": 6.0, "beta": 4.0, "gamma": 8.0, "deferred": 4}, 2, 4),
    (smoothadv, {"noises": 1, **ADV}, 1, 20),
    (smoothadv, {"noises": 3, **ADV}, 3, 0),
    (smoothadv, {"noises": 3, **ADV, "beta": 4.0}, 3, 4),
    (smoothadv, {"noises": 3, **ADV, "attack": "ddn", "steps": 6}, 3, 20),
    (smoothadv, {"noises": 4, **ADV, "attack": "stein"}, 4, 20),
    (smoothadv, {"noises": 3, **ADV, "multitrain": False}, 3, 20),
    (smoothadv, {"noises": 1, **ADV, "noise": "training"}, 1, 20),
    (smoothadv, {"noises": 1, **ADV, "noise": "none", "warmup": 1}, 1, 0),
    (consistency, {"noises": 2, **CONS}, 2, 0),
    (consistency, {"noises": 3, **CONS, "form": "kl"}, 3, 0),
    (consistency, {"noises": 3, **CONS, "form": "xent"}, 3, 0),
    (consistency, {"noises": 3, **CONS, "form": "mse"}, 3, 0),
    (consistency, {"noises": 3, **CONS, "base": "smoothadv", **ADV}, 3, 5),
    (smoothmix, {"noises": 3, **MIX}, 3, 20),
    (smoothmix, {"noises": 1, **MIX, "steps": 1}, 1, 2),
    (smoothmix, {"noises": 3, **MIX, "one_step": True}, 3, 20),
    (smoothmix, {"noises": 3, **MIX, "one_step": True}, 3, 2),
    (
        smoothmix,
        {"noises": 1, **MIX, "steps": 1, "alpha": 2.0, "one_step": True, "one_step_radius": 0.5},
        1,
        4,
    ),
    (smoothmix, {"noises": 2, **MIX, "max_norm": 0.5}, 2, 9),
    (catrs, {**CAT}, 3, 0),
    (catrs, {**CAT, "count_from": "soft-labels", "double_from": 2}, 3, 1),
    (catrs, {**CAT, "count_from": "soft-labels", "double_from": 2}, 3, 2),
    (catrs, {**CAT, "lam": 0.0}, 3, 0),
    (catrs, {**CAT, "low": "none", "mask": False}, 3, 0),
    (catrs, {**CAT, "low": "mean", "mask": False}, 3, 0),
    (catrs, {**CAT, "mask": False}, 3, 0),
    (catrs, {**CAT, "high": "mean"}, 3, 0),
    (catrs, {**CAT, "target": "mean"}, 3, 0),
    (catrs, {**CAT, "target": "label"}, 3, 0),
    (gaussian, {**PRINTED}, 1, 0),
    (stability, {"lam": 2.0, **PRINTED}, 1, 0),
    (macer, {"noises": 5, "lam": 6.0, "beta": 4.0, "gamma": 8.0, **PRINTED}, 5, 0),
    (macer, {"noises": 5, "lam": 6.0, "beta": 4.0, "gamma": 0.2, **PRINTED}, 5, 0),
    (smoothadv, {"noises": 3, **ADV, "attack": "expected"}, 3, 20),
    (smoothadv, {"noises": 3, **ADV, **PRINTED}, 3, 0),
    (smoothadv, {"noises": 3, **ADV, **PRINTED}, 3, 4),
    (smoothadv, {"noises": 3, **ADV, "beta": 4.0, **PRINTED}, 3, 10),
    (smoothadv, {"noises": 3, **ADV, "attack": "expected", **PRINTED}, 3, 20),
    (smoothadv, {"noises": 3, **ADV, "attack": "ddn", "steps": 2, **PRINTED}, 3, 20),
    (smoothadv, {"noises": 3, **ADV, "attack": "ddn", "steps": 6, **PRINTED}, 3, 9),
    (consistency, {"noises": 3, **CONS, **PRINTED}, 3, 0),
    (consistency, {"noises": 3, **CONS, "base": "smoothadv", **ADV, **PRINTED}, 3, 0),
    (consistency, {"noises": 3, **CONS, "base": "smoothadv", **ADV, **PRINTED}, 3, 5),
    (smoothmix, {"noises": 3, **MIX, **PRINTED}, 3, 0),
    (smoothmix, {"noises": 3, **MIX, "one_step": True, **PRINTED}, 3, 2),
    (
        smoothmix,
        {"noises": 1, **MIX, "one_step": True, "one_step_radius": 0.3, **PRINTED},
        1,
        2,
    ),
    (smoothmix, {"noises": 2, **MIX, "max_norm": 0.5, **PRINTED}, 2, 9),
    (catrs, {**CAT, **PRINTED}, 3, 0),
    (catrs, {**CAT, "low": "mean", "lam": 0.0, **PRINTED}, 3, 0),  # L_base over M noises
    (sun, SUN, 3, 1),
    (sun, SUN, 3, 2),
    (sun, {**SUN, "noises": 1, "steps": 1}, 1, 9),
]
IDS = [
    f"{case[0].__name__}-{'-'.join(map(str, case[1].values()))}-epoch{case[3]}" for case in CASES
]


def formula(make, settings, m, epoch, model):
    batch = make_batch()
    x, y, soft = (
        batch.images.flatten(1).numpy(),
        batch.labels.tolist(),
        batch.soft_labels.double().numpy(),
    )
    return make(settings, epoch, x, y, soft, Draws(m), literal.Net(model))


def total(make, settings, epoch, model):
    method = build_method({"name": make.__name__, **settings})
    return method.loss(model, make_batch(), SIGMA, Progress(epoch, 90)).total


@pytest.mark.parametrize(("make", "settings", "m", "epoch"), CASES, ids=IDS)
def test_value_and_gradient_equal_the_formula(make, settings, m, epoch):
    """The gradient by finite differences of the formula along random directions of weight space."""
    model = network()
    value = formula(make, settings, m, epoch, model)
    found = total(make, settings, epoch, model)
    assert found.item() == pytest.approx(value(literal.Net(model)), rel=1e-9)
    found.backward()
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        direction = [
            torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()
        ]
        slope = float(
            sum((p.grad * d).sum() for p, d in zip(model.parameters(), direction, strict=True))
        )
        values = []
        for step in (1e-6, -1e-6):
            moved = literal.Net(model)
            for name, d in zip(("w1", "b1", "w2", "b2"), direction, strict=True):
                setattr(moved, name, getattr(moved, name) + step * d.numpy())
            values.append(value(moved))
        assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-8)


# Gaussian, Stability, Consistency on Gaussian noise and L_base differ in their steps at most
@pytest.mark.parametrize(
    ("make", "settings", "m", "epoch"),
    [
        case
        for case in CASES
        if case[1].get("as_printed")
        and case[0] not in (gaussian, stability)
        and (case[0] is not consistency or "base" in case[1])
        and case[1].get("lam") != 0
    ],
)
def test_what_is_printed_is_another_loss_than_the_codes(make, settings, m, epoch):
    """Else the cases above could not tell which of the two was computed."""
    model = network()
    code = total(make, {**settings, "as_printed": False}, epoch, model).item()
    assert total(make, settings, epoch, model).item() != pytest.approx(code, rel=1e-6)


def test_every_method_has_a_case():
    assert {case[0].__name__ for case in CASES} == set(METHODS)


def test_cases_exercise_what_they_are_for():
    """Otherwise a wrong mask or a wrong count could not be seen above."""
    model, batch = network(), make_batch()
    net = literal.Net(model)
    x, y = batch.images.flatten(1).numpy(), batch.labels.tolist()
    draws = Draws(3)
    answered = [
        np.argmax(sum(net.softmax(x[b] + d) for d in draws.noise[b])) == y[b] for b in range(SIZE)
    ]
    assert 0 < sum(answered) < SIZE
    votes = [
        sum(np.argmax(net.logits(x[b] + d)) == y[b] for d in draws.noise[b]) / 3
        for b in range(SIZE)
    ]
    throws = draws.uniform(3, SIZE)
    kept = [max(1, sum(throws[i][b] < votes[b] for i in range(3))) for b in range(SIZE)]
    assert {1, 3} <= set(kept)
    moved = [
        [np.abs(literal.sphere_noise(net, x[b], y[b], d, 0.4, t) - d).max() for t in (1, 2, 3)]
        for b in range(SIZE)
        for d in draws.noise[b]
    ]
    assert any(first == 0 for first, _, _ in moved)  # misclassified from the beginning
    assert any(0 < second == third for _, second, third in moved)  # on the way
    assert any(second != third for _, second, third in moved)  # not before the last step
