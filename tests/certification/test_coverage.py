"""How often certificates are false in the default mode: by sampling, and exactly, from the integers of the noise."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from scipy import stats

from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.config import CertifyConfig
from smoothcert.config.choices import law_of
from smoothcert.noise.streams import tau
from smoothcert.noise.thresholds import BITS, largest, thresholds
from smoothcert.statistics.laws import law_named
from tests.counted import certified
from tests.networks import DEVICES, OnePixel

NOISES = ["exact", "uniform", "laplace"]
SIGMA = 0.25


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("noise", NOISES)
def test_two_thousand_certificates_are_false_at_most_as_often_as_stated(noise, device):
    """Alpha is large, so that false ones must show up, but not too often."""
    trials, alpha = 2000, 0.1
    levels = np.random.default_rng(1).integers(128, 200, trials)
    images = [torch.full((1, 2, 2), int(level), dtype=torch.uint8) for level in levels]
    smoothed = SmoothedClassifier(
        OnePixel(), CertifyConfig(SIGMA, noise=noise, n0=20, n=256, alpha=alpha), device=device
    )
    false = 0
    for first in range(0, trials, 250):
        indices = range(first, first + 250)
        found = smoothed.certify_many([images[i] for i in indices], indices)
        for index, certificate in zip(indices, found, strict=True):
            margin = (int(levels[index]) - 127.5) / 255
            false += certificate.predict == 1 or (
                certificate.predict == 0 and certificate.radius > margin
            )
    assert (
        stats.binom.ppf(0.0001, trials, alpha / 3)
        <= false
        <= stats.binom.ppf(0.9999, trials, alpha)
    )


@pytest.mark.parametrize("n", [10, 33, 100])
@pytest.mark.parametrize("level", [128, 135, 150, 190, 255])
@pytest.mark.parametrize("noise", NOISES)
def test_the_probability_of_a_false_certificate_is_at_most_alpha_exactly(noise, level, n):
    """Over every count that n samples can give, with the probability that the table of the noise gives it."""
    law, alpha = law_of(noise), 0.05
    below = thresholds(law_named(law), SIGMA)[
        largest(SIGMA) + 127 - level
    ]  # of 2^62: level + noise <= 127
    p, margin = 1 - Fraction(below, 2**BITS), (level - 127.5) / 255
    slack = tau(noise, SIGMA, 4)
    counts = np.array([(k, n - k) for k in range(n + 1)])
    for selected in (0, 1):
        pilot = np.tile([10 * (selected == 0), 10 * (selected == 1)], (n + 1, 1))
        found = certified(pilot, counts, SIGMA, alpha, tau=slack, law=law)
        wrong = [c.predict == 1 or (c.predict == 0 and c.radius > margin) for c in found]
        false = sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1) if wrong[k])
        assert false <= alpha
        more = [c.multiclass_radius > (margin if selected == 0 else 0) for c in found]
        assert sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1) if more[k]) <= alpha
