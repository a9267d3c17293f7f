"""Each loss against an independent, literal computation, in values and in gradients."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.data.batches import Batch
from smoothcert.errors import ConfigError
from smoothcert.methods import METHODS, build_method
from smoothcert.methods.base import Losses, Method, Progress, noisy_copies

SIGMA = 0.3


def batch(size=6, seed=0):
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random((size, 1, 4, 4))).double()
    labels = torch.from_numpy(rng.integers(0, 3, size))
    return Batch(images, labels, torch.arange(size), torch.Generator().manual_seed(5))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def the_noise(size, m):
    """The draws a method makes, noise-major, from a generator in the same state."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(m, size, 1, 4, 4, generator=generator)


def softmax(z):
    powers = [np.exp(v - max(z)) for v in z]
    return [p / sum(powers) for p in powers]


def literal_gaussian(logits, labels, settings):
    total = 0.0
    for b in range(len(labels)):
        total += -np.log(softmax(logits[0][b])[labels[b]])
    return total / len(labels)


def literal_consistency(logits, labels, settings):
    """CE averaged over copies and images, plus lam * mean KL(Fbar || F_i), plus eta * H(Fbar), by loops."""
    m, size = len(logits), len(labels)
    cross, regulariser = 0.0, 0.0
    for b in range(size):
        probabilities = [softmax(logits[i][b]) for i in range(m)]
        mean = [sum(p[c] for p in probabilities) / m for c in range(3)]
        cross += sum(-np.log(p[labels[b]]) for p in probabilities) / (m * size)
        divergence = sum(mean[c] * (np.log(mean[c]) - np.log(p[c])) for p in probabilities for c in range(3)) / m
        entropy = -sum(q * np.log(q) for q in mean)
        regulariser += (settings["lam"] * divergence + settings["eta"] * entropy) / size
    return cross + regulariser


CASES = [
    ({"name": "gaussian"}, 1, literal_gaussian),
    ({"name": "consistency", "noises": 2, "lam": 5.0, "eta": 0.5}, 2, literal_consistency),
    ({"name": "consistency", "noises": 4, "lam": 0.0, "eta": 2.0}, 4, literal_consistency),
    ({"name": "consistency", "noises": 3, "lam": 20.0, "eta": 0.0}, 3, literal_consistency),
]


@pytest.mark.parametrize(("settings", "m", "literal"), CASES)
def test_loss_equals_the_formula(settings, m, literal):
    data, model = batch(), network()
    noisy = data.images + SIGMA * the_noise(6, m)
    with torch.no_grad():
        logits = [model(copy).numpy() for copy in noisy]
    found = build_method(settings).loss(model, data, SIGMA, Progress(0, 1))
    assert float(found.total.detach()) == pytest.approx(literal(logits, data.labels.tolist(), settings), rel=1e-9)


@pytest.mark.parametrize(("settings", "m", "literal"), CASES)
def test_gradient_equals_that_of_the_formula(settings, m, literal):
    """Finite differences of the literal formula along random directions of weight space: nothing may be detached."""
    model = network()
    noisy = batch().images + SIGMA * the_noise(6, m)
    labels = batch().labels.tolist()
    build_method(settings).loss(model, batch(), SIGMA, Progress(0, 1)).total.backward()
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]
        slope = float(sum((p.grad * d).sum() for p, d in zip(model.parameters(), direction, strict=True)))
        values = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                for p, d in zip(model.parameters(), direction, strict=True):
                    p += step * d
                values.append(literal([model(copy).numpy() for copy in noisy], labels, settings))
        with torch.no_grad():
            for p, d in zip(model.parameters(), direction, strict=True):
                p += 1e-5 * d
        assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-8)


def test_noisy_copies_are_noise_major_and_not_clamped():
    data = batch()
    found = noisy_copies(data, SIGMA, 3)
    assert torch.allclose(found, (data.images + SIGMA * the_noise(6, 3)).flatten(0, 1))
    assert found.min() < 0


def test_every_listed_method_builds_with_its_papers_defaults():
    for name in METHODS:
        assert isinstance(build_method({"name": name}), Method)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "gausian"}, r"unknown method 'gausian': did you mean gaussian\?"),
        ({}, "a method is given as"),
        ({"name": "consistency", "lamb": 1.0}, r"did you mean lam\?"),
        ({"name": "consistency", "lam": "many"}, "Expected a <class 'float'>. Got value: many"),
        ({"name": "consistency", "noises": 1.5}, "Expected a <class 'int'>. Got value: 1.5"),
        ({"name": "consistency", "noises": 1}, "noises >= 2, found 1"),
        ({"name": "consistency", "lam": -1.0}, "lam >= 0 and eta >= 0, found lam=-1.0"),
        ({"name": "nowhere.Method"}, "importing 'nowhere' failed"),
        ({"name": "tests.test_methods.Nothing"}, r"expected 'Nothing' in .*test_methods\.py, found nothing"),
        ({"name": "tests.test_methods.batch"}, r"must be a dataclass derived from smoothcert\.Method"),
        (
            {"name": "tests.test_methods.Needs"},
            "missing hyperparameter of the method tests.test_methods.Needs: strength",
        ),
    ],
)
def test_unusable_methods_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        build_method(settings)


@dataclasses.dataclass(frozen=True)
class Needs(Method):
    strength: float

    def loss(self, model, batch, sigma, progress):
        return Losses(model(batch.images).sum() * self.strength)


def test_a_term_may_not_take_the_name_of_a_metric():
    with pytest.raises(ConfigError, match="cannot be called loss"):
        Losses(torch.zeros(()), {"loss": torch.zeros(())})
