"""What sequential procedures can claim is allowed for their final counts, and little else is."""

import numpy as np
import pytest

from smoothcert.statistics.laws import law_named
from smoothcert.statistics.replay import bound_claims, radius_claims
from smoothcert.statistics.stopping import Level, RadiusTests, RepeatedBounds


def walk(test, p, rng):
    """The last look, the count there and the claim of one input whose class has probability p."""
    path = rng.binomial(np.diff(test.looks, prepend=0), p).cumsum()
    for look in range(len(path)):
        judged = test.judge(path[None, : look + 1])
        if judged.finished[0]:
            return look, path[look], judged.p_lower[0], judged.radius[0]
    raise AssertionError("it must finish at the last look")


@pytest.mark.parametrize("radii", [(0.0,), (0.5,), (0.0, 0.25, 0.5, 0.7), (0.3, 0.31)])
@pytest.mark.parametrize("law", ["gaussian", "uniform"])
def test_every_claim_of_a_radius_test_is_allowed_and_no_larger_one(radii, law):
    test, rng = (
        RadiusTests(radii, Level(law_named(law), 0.5, 2000, 0.001)),
        np.random.default_rng(0),
    )
    found = [walk(test, p, rng) for p in rng.uniform(0.4, 1.0, 600)]
    look, count = (np.array(column) for column in list(zip(*found, strict=True))[:2])
    passed = np.array([0 if np.isnan(r) else 1 + test.radii.index(r) for *_, r in found])
    assert radius_claims(test, look, count, passed).all()
    more = passed < len(radii)
    larger = radius_claims(test, look[more], count[more], np.full(more.sum(), len(radii)))
    assert larger.sum() <= 0.01 * len(
        larger
    )  # else a radius was given up that this count would certify


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.2])
def test_every_claim_of_repeated_bounds_is_allowed_and_no_other(tolerance):
    test, rng = (
        RepeatedBounds(tolerance, Level(law_named("gaussian"), 0.5, 20_000, 0.001, 1e-10)),
        np.random.default_rng(1),
    )
    found = [
        walk(test, p, rng)
        for p in np.concatenate([rng.uniform(0.4, 1.0, 300), rng.uniform(0.99, 1.0, 300)])
    ]
    look, count = (np.array(column) for column in list(zip(*found, strict=True))[:2])
    p = np.array([p for *_, p, _ in found])
    early = 0
    for at in range(len(test.looks)):
        rows = look == at
        assert bound_claims(test, at, count[rows], p[rows]).all()
        early += int((p[rows] > test.bound(at, count[rows])).sum())
        for factor in (0.999, 1.0001):
            assert not bound_claims(test, at, count[rows], p[rows] * factor).any()
    assert early > 0 or tolerance == 0.2  # some have the bound of an earlier look


def test_a_stop_too_early_is_not_allowed():
    test = RepeatedBounds(0.01, Level(law_named("gaussian"), 0.5, 20_000, 0.001))
    count = np.array([300])  # of 320: all samples could show a much larger radius
    assert test.looks[2] == 320
    assert not bound_claims(test, 2, count, test.bound(2, count)).any()
    assert test.enough(len(test.looks) - 1, count, 0.5).all()
