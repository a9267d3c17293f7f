"""Settings that no attack can have."""

import numpy as np
import pytest

from smoothcert.config import AttackConfig
from smoothcert.errors import ConfigError
from smoothcert.statistics.procedure import ABSTAIN, predicted

SIGMA = 0.25


@pytest.mark.parametrize(
    "wrong",
    [
        {"attack": "fgsm"},
        {"noises": 0},
        {"steps": 0},
        {"attack": "stein", "noises": 1},  # would move the image at random, and prove nothing
        {"attack": "stein-hard", "noises": 1},
    ],
)
def test_unusable_attacks_are_refused(wrong):
    with pytest.raises(ConfigError, match="attack"):
        AttackConfig(SIGMA, (0.5,), **wrong)


@pytest.mark.parametrize(
    ("alpha", "least"), [(0.001, 11), (0.5, 3), (0.3, 3), (2**-10, 12), (1e-6, 21), (0.9, 2)]
)
def test_too_few_samples_for_any_answer_are_refused(alpha, least):
    """At the least n, and not below it, PREDICT answers if all samples agree."""
    assert predicted(np.array([0, least]), alpha) == 1
    AttackConfig(SIGMA, (0.5,), n=least, alpha=alpha)
    for n in range(least):
        assert predicted(np.array([0, n]), alpha) == ABSTAIN
        with pytest.raises(
            ConfigError, match=f"n = {n} samples cannot answer .*, so use n >= {least}$"
        ):
            AttackConfig(SIGMA, (0.5,), n=n, alpha=alpha)
