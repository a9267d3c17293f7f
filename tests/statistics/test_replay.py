"""What sequential procedures can claim is allowed for their final counts, and little else is."""

import numpy as np
import pytest

from smoothcert.statistics.replay import bound_claims, radius_claims
from smoothcert.statistics.sequential import RadiusTest, RepeatedBounds


def walk(test, p, rng):
    """The last look, the count there and the claim of one input whose class has probability p."""
    state, count, before = test.start, 0, 0
    for look, seen in enumerate(test.looks):
        count += int(rng.binomial(seen - before, p))
        state, before = test.advance(state, look, count), seen
        if test.finished(state):
            return look, count, test.claim(state)
    raise AssertionError("it must finish at the last look")


@pytest.mark.parametrize("radii", [(0.0,), (0.5,), (0.0, 0.25, 0.5, 0.7), (0.3, 0.31)])
@pytest.mark.parametrize("law", ["gaussian", "uniform"])
def test_every_claim_of_a_radius_test_is_allowed_and_no_larger_one(radii, law):
    test, rng = RadiusTest(radii, 0.5, 2000, 0.001, law=law), np.random.default_rng(0)
    found = [walk(test, p, rng) for p in rng.uniform(0.4, 1.0, 600)]
    look, count = (np.array(column) for column in list(zip(*found, strict=True))[:2])
    passed = np.array(
        [0 if c.radius is None else 1 + test.radii.index(c.radius) for *_, c in found]
    )
    assert radius_claims(test, look, count, passed).all()
    more = passed < len(radii)
    larger = radius_claims(test, look[more], count[more], np.full(more.sum(), len(radii)))
    assert larger.sum() <= 0.01 * len(
        larger
    )  # else a radius was given up that this count would certify


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.2])
def test_every_claim_of_repeated_bounds_is_allowed_and_no_other(tolerance):
    test, rng = (
        RepeatedBounds(tolerance, 0.5, 20_000, 0.001, slack=1e-10, law="gaussian"),
        np.random.default_rng(1),
    )
    found = [
        walk(test, p, rng)
        for p in np.concatenate([rng.uniform(0.4, 1.0, 300), rng.uniform(0.99, 1.0, 300)])
    ]
    look, count = (np.array(column) for column in list(zip(*found, strict=True))[:2])
    p = np.array([claim.p_lower for *_, claim in found])
    early = 0
    for at in range(len(test.looks)):
        rows = look == at
        assert bound_claims(test, at, count[rows], p[rows]).all()
        early += int((p[rows] > test.bound(at, count[rows])).sum())
        for factor in (0.999, 1.0001):
            assert not bound_claims(test, at, count[rows], p[rows] * factor).any()
    assert early > 0 or tolerance == 0.2  # some have the bound of an earlier look


def test_a_stop_too_early_is_not_allowed():
    test = RepeatedBounds(0.01, 0.5, 20_000, 0.001, law="gaussian")
    count = np.array([300])  # of 320: all samples could show a much larger radius
    assert test.looks[2] == 320
    assert not bound_claims(test, 2, count, test.bound(2, count)).any()
    assert test.enough(len(test.looks) - 1, count, 0.5).all()
