"""The bound against the exact probability of the proof's own worst classifier, which lives on a shell."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import chdtr

from smoothcert.errors import ConfigError
from smoothcert.evaluation.input_noise import InputNoiseBound


def exact_shell_probability(p, sigma, tau, epsilon, d):
    """Gaussian noise: |sigma delta|^2/d in [sigma^2 - k, sigma^2 + k] has probability p; that of |tau delta + z|^2/d.

    The shell is the classifier of the proof; |z| = epsilon enters through the noncentral chi-squared law.
    """
    low, high = 0.0, float(d)
    for _ in range(60):  # k by bisection
        k = (low + high) / 2
        mass = chdtr(d, d * (1 + k / sigma**2)) - chdtr(d, d * max(0.0, 1 - k / sigma**2))
        low, high = (k, high) if mass < p else (low, k)
    edges = d * np.array([max(0.0, sigma**2 - k), sigma**2 + k]) / tau**2
    return float(np.diff(stats.ncx2.cdf(edges, d, (epsilon / tau) ** 2))[0])


@pytest.mark.parametrize("p", [0.6, 0.9, 0.99])
@pytest.mark.parametrize(
    ("sigma", "tau"), [(0.5, 0.6), (0.5, 0.45), (1.0, 0.25), (0.25, 1.0), (1.0, 1.05)]
)
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_the_worst_classifier_is_below_the_bound_at_every_dimension(p, sigma, tau, epsilon):
    bound = InputNoiseBound(p, sigma, tau, epsilon)
    for d in (1, 10, 100, 1000, 10_000, 100_000):
        assert exact_shell_probability(p, sigma, tau, epsilon, d) <= bound.at(d) + 1e-9


def test_it_falls_as_one_over_d():
    bound = InputNoiseBound(0.9, 0.5, 0.6, 0.1)
    dimensions = np.array([1e6, 1e7, 1e8])
    assert np.allclose(bound.at(dimensions) * dimensions, bound.constant)
    assert bound.at(1) == 1.0
    assert (
        InputNoiseBound(0.9, 0.5, 0.51, 0.1).constant > bound.constant
    )  # nearer noise levels are less bad


def test_the_constant_is_the_formula():
    # gap 0.11, eta^2 = 2: terms 45.454..., 0.5454..., (9.3312 + 0.5184)/0.0121
    assert InputNoiseBound(0.9, 0.5, 0.6, 0.1).constant == pytest.approx(
        (36 * 0.1296 * 2 + 144 * 0.36 * 0.01) / 0.0121
    )
    assert InputNoiseBound(0.999, 0.5, 0.6, 0.1).constant == pytest.approx(
        4 * 0.0625 * 2 / (0.0121 * 0.001)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"p": 0.5},
        {"p": 1.0},
        {"tau": 0.5},
        {"sigma": 0.0},
        {"epsilon": 0.0},
        {"epsilon": 0.6},
        {"fourth_moment": 0.5},
    ],
)
def test_values_outside_the_theorem_are_refused(wrong):
    with pytest.raises(ConfigError, match="found"):
        InputNoiseBound(**{"p": 0.9, "sigma": 0.5, "tau": 0.6, "epsilon": 0.1, **wrong})
