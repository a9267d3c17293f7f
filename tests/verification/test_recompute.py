"""The second computation agrees with the first, and shares no code with it."""

import ast
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from smoothcert.runs import recompute
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.stopping import radius_looks, threshold_table

LAWS = ("gaussian", "uniform", "laplace")


def test_it_imports_numpy_and_scipy_alone():
    tree = ast.parse(Path(recompute.__file__).read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    found |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert {name.split(".")[0] for name in found} - sys.stdlib_module_names == {"numpy", "scipy"}


@given(st.integers(1, 200_000), st.floats(0, 1), st.sampled_from([1e-7, 0.001, 0.05]))
def test_lower_bounds(n, share, alpha):
    count = np.array([round(share * n)])
    found = recompute.lower_bound(count, np.array([n]), alpha)
    assert found == pytest.approx(bounds.lower_bound(count, n, alpha), rel=1e-8, abs=1e-15)
    assert bounds.lower_bound(count, n, alpha)[0] <= found[0] * (1 + 1e-12)
    if count[0]:
        assert binom.sf(count[0] - 1, n, found[0] * (1 + 1e-6)) > alpha  # it is the largest


@pytest.mark.parametrize("law", LAWS)
@given(p=st.floats(0.5, 1 - 1e-9))
def test_radii_and_their_probabilities(law, p):
    r = recompute.radius(p, 0.5, law)
    assert r == pytest.approx(law_named(law).radius(p, 0.5), rel=1e-9, abs=1e-12)
    assert recompute.probability(r, 0.5, law) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_two_class_radii(law, top, other):
    other = min(other, 1000 - top)
    n = np.array([1000])
    p_a = recompute.lower_bound(np.array([top]), n, 0.0009)
    p_b = np.minimum(1 - recompute.lower_bound(n - other, n, 0.0001), 1 - p_a)
    both = bounds.lower_bound(top, n, 0.0009), bounds.upper_bound(other, n, 0.0001)
    (expected,) = law_named(law).multiclass_radius(*both, 0.5)
    assert recompute.two_class_radius(p_a, p_b, 0.5, law)[0] == pytest.approx(
        float(expected), rel=1e-8, abs=1e-10
    )


@pytest.mark.parametrize("n", [20, 21, 100, 5000, 100_000])
@pytest.mark.parametrize("p", [0.5, 0.69, 0.977])
def test_looks_and_thresholds_of_radius_tests(n, p):
    looks = recompute.radius_looks(n)
    assert tuple(looks) == radius_looks(n)
    found = recompute.thresholds(p, looks, 0.001)
    assert found == threshold_table(p, tuple(looks), 0.001)[0].tolist()


def test_the_thresholds_spend_no_more_than_alpha():
    """A third way: the law of the count, one sample at a time."""
    looks, p, alpha = recompute.radius_looks(60), 0.7, 0.01
    needed = dict(zip(looks, recompute.thresholds(p, looks, alpha), strict=True))
    alive, crossed = {0: 1.0}, 0.0
    for n in range(1, 61):
        after: dict[int, float] = {}
        for count, chance in alive.items():
            for step, share in ((0, 1 - p), (1, p)):
                after[count + step] = after.get(count + step, 0.0) + chance * share
        crossed += math.fsum(
            chance for count, chance in after.items() if count >= needed.get(n, n + 1)
        )
        alive = {count: chance for count, chance in after.items() if count < needed.get(n, n + 1)}
    assert 0.3 * alpha < crossed <= alpha
