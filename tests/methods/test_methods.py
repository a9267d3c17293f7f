"""What a method is: by name, by dotted path, and never with a value outside its domain."""

import dataclasses

import numpy as np
import pytest
import torch

from smoothcert.data.batches import Batch
from smoothcert.errors import ConfigError
from smoothcert.methods import METHODS, build_method
from smoothcert.methods.base import Losses, Method, noisy_copies

SIGMA = 0.3


def batch(size=6, seed=0):
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random((size, 1, 4, 4))).double()
    labels = torch.from_numpy(rng.integers(0, 3, size))
    return Batch(images, labels, torch.arange(size), torch.Generator().manual_seed(5))


def the_noise(size, m):
    """The draws a method makes, noise-major, from a generator in the same state."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(m, size, 1, 4, 4, generator=generator)


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
        ({"name": "consistency", "lam": "many"}, "lam must be a finite number, found 'many'"),
        ({"name": "consistency", "noises": 1.5}, "noises must be a whole number, found 1.5"),
        (
            {"name": "catrs", "low": "men"},
            "catrs: low is one of bottom-k, mean, none, found 'men'; did you mean mean",
        ),
        ({"name": "consistency", "noises": 1}, "noises >= 2, found 1"),
        ({"name": "consistency", "lam": -1.0}, "Consistency needs lam 0 or above, found -1.0"),
        ({"name": "consistency", "form": "l1"}, "form"),
        ({"name": "stability", "lam": float("nan")}, "lam must be a finite number, found nan"),
        ({"name": "smoothadv", "noises": 0}, "SmoothAdv needs noises 1 or above, found 0"),
        (
            {"name": "smoothadv", "epsilon": float("inf")},
            "epsilon must be a finite number, found inf",
        ),
        ({"name": "smoothadv", "beta": 0.0}, "SmoothAdv needs beta above 0, found 0.0"),
        ({"name": "smoothadv", "gamma": 1.0}, "gamma, DDN's change of norm, below 1, found 1.0"),
        (
            {"name": "smoothadv", "attack": "stein", "noises": 1},
            "noise 'both' and noises >= 2, found 'both' and 1",
        ),
        ({"name": "smoothadv", "attack": "stein", "noise": "training"}, "found 'training' and 4"),
        ({"name": "smoothadv", "noise": "none"}, "give noises 1, found 4"),
        ({"name": "macer", "gamma": 0.0}, "Macer needs gamma above 0, found 0.0"),
        ({"name": "macer", "deferred": -1}, "Macer needs deferred 0 or above, found -1"),
        ({"name": "smoothmix", "alpha": 0.0}, "SmoothMix needs alpha above 0, found 0.0"),
        ({"name": "smoothmix", "max_norm": -1.0}, "SmoothMix needs max_norm above 0, found -1.0"),
        (
            {"name": "smoothmix", "one_step_radius": 0.0},
            "SmoothMix needs one_step_radius above 0, found 0.0",
        ),
        ({"name": "catrs", "steps": 0}, "CatRs needs steps 1 or above, found 0"),
        ({"name": "catrs", "double_from": -1}, "CatRs needs double_from 0 or above, found -1"),
        ({"name": "catrs", "low": "none", "lam": 0.0}, "has no loss left"),
        ({"name": "sun", "threshold": 1.1}, "from 0 to 1, found 1.1"),
        ({"name": "sun", "deferred": -1}, "Sun needs deferred 0 or above, found -1"),
        ({"name": "sun", "reweight_every": 0}, "Sun needs reweight_every 1 or above, found 0"),
        *(
            (
                {"name": name, "as_printed": True},
                "as_printed is for methods whose paper was compared",
            )
            for name in ("sun", "denoiser", "tests.methods.test_methods.Needs")
        ),
        ({"name": "nowhere.Method"}, "importing 'nowhere' failed"),
        (
            {"name": "tests.methods.test_methods.Nothing"},
            r"expected 'Nothing' in .*test_methods\.py, found nothing",
        ),
        (
            {"name": "tests.methods.test_methods.batch"},
            r"must be a dataclass derived from smoothcert\.Method",
        ),
        (
            {"name": "tests.methods.test_methods.Needs"},
            "missing hyperparameter of the method tests.methods.test_methods.Needs: strength",
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
