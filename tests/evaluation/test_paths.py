"""Adversarial paths against the closed form of a logistic model."""

import numpy as np
import pytest
import torch
from torch import nn

from smoothcert.errors import ConfigError
from smoothcert.evaluation.paths import adversarial_path

SHAPE = (1, 4, 4)


class Logistic(nn.Module):
    """Confidence of class 0 is sigmoid(20 s) with s the distance from the plane through the middle, |w| = 1."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.full(SHAPE, 0.25))

    def forward(self, x):
        score = 10 * ((x - 0.5) * self.w).flatten(1).sum(1)
        return torch.stack([score, -score, torch.full_like(score, -50.0)], 1)


def test_the_path_crosses_the_plane_where_it_must():
    """From 0.4 on one side, four steps of 0.3 lead 0.8 across: the answer changes a third of the way."""
    model, image = Logistic(), torch.full(SHAPE, 0.6)
    path = adversarial_path(model, image, 0, sigma=1e-4, alpha=0.3, steps=4, noises=8, points=301)
    assert path.distance == pytest.approx(1.2, abs=1e-3)
    assert (path.answer, path.target) == (0, 1)
    assert path.equal_confidence_ratio == pytest.approx(1 / 3, abs=0.005)
    expected = 1 / (1 + np.exp(-20 * (0.4 - 1.2 * path.ratios)))
    assert np.allclose(path.confidences[:, 0], expected, atol=2e-3)
    assert np.allclose(path.confidences.sum(1), 1)
    assert path.adversarial.shape == SHAPE


def test_smoothing_softens_the_path():
    model, image = Logistic(), torch.full(SHAPE, 0.6)
    sharp, soft = (
        adversarial_path(model, image, 0, sigma=s, alpha=0.3, steps=4, noises=512)
        for s in (1e-4, 0.5)
    )
    assert soft.confidences[0, 0] < sharp.confidences[0, 0]


def test_a_path_that_stays_in_the_box_may_never_change_the_answer():
    model = Logistic()
    path = adversarial_path(
        model, torch.full(SHAPE, 0.9), 0, sigma=1e-4, alpha=0.1, steps=1, noises=4
    )
    assert path.equal_confidence_ratio is None
    assert (path.answer, path.target) == (0, 1)
    assert path.adversarial.min() >= 0


def test_the_same_seed_and_index_give_the_same_path():
    model, image = Logistic(), torch.full(SHAPE, 0.6)
    first, second, other = (
        adversarial_path(model, image, 0, sigma=0.3, index=i, noises=4) for i in (0, 0, 1)
    )
    assert np.array_equal(first.confidences, second.confidences)
    assert not np.array_equal(first.confidences, other.confidences)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"noises": 0}, {"points": 1}, {"alpha": 0.0}])
def test_unusable_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match="a path needs"):
        adversarial_path(Logistic(), torch.full(SHAPE, 0.6), 0, sigma=0.5, **wrong)
