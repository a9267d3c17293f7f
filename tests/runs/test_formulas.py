"""The second computation agrees with the first, and shares no code with it."""

import ast
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from smoothcert.noise.thresholds import tau_of
from smoothcert.runs import formulas
from smoothcert.statistics.laws import LAWS
from smoothcert.statistics.procedure import ABSTAIN
from smoothcert.statistics.stopping import radius_looks, threshold_table
from tests.counted import procedure

RULES = {
    "fixed": {},
    "radii": {"radii": (0.0, 0.25, 0.5)},
    "tolerance": {"tolerance": 0.05, "n": 30_000},
    "few": {"n": 30, "alpha": 0.05},
}


def test_it_imports_numpy_and_scipy_alone():
    tree = ast.parse(Path(formulas.__file__).read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    found |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert {name.split(".")[0] for name in found} - sys.stdlib_module_names == {"numpy", "scipy"}


def test_every_law_has_its_formulas():
    assert {*formulas.NEEDED} == {*formulas._MULTICLASS} == {*LAWS}


def drawn(rules, rng, inputs=400):
    """Counts at the looks that were reached, of classes of many probabilities."""
    looks = np.array(rules.stopping.looks)
    share = np.concatenate([rng.uniform(0.4, 1, inputs), 1 - 10 ** rng.uniform(-5, -1, inputs)])
    path = rng.binomial(np.diff(looks, prepend=0), share[:, None]).cumsum(1)
    for look in range(len(looks) - 1):
        done = (path[:, look] >= 0) & rules.stopping.judge(path[:, : look + 1]).finished
        path[done, look + 1 :] = -1
    return path


@pytest.mark.parametrize("tau", [0.0, 1e-3])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", RULES)
def test_every_claim_is_proved_and_no_larger_one(kind, law, tau):
    rules = procedure(law, tau=tau, **RULES[kind])
    path = drawn(rules, np.random.default_rng(0))
    claims = rules.claims(path, np.zeros(len(path), int))
    claimed = ~np.isnan(claims.radius)
    assert claimed.any()
    radius = np.where(claimed, claims.radius, 0.0)
    assert formulas.proved(rules, tau, path, radius * (1 - 1e-9))[claimed].all()
    assert not formulas.proved(rules, tau, path, radius)[~claimed].any()
    if kind == "radii":
        larger = dict(zip(rules.radii, (*rules.radii[1:], 0.75), strict=True))
        more = np.array([larger[r] for r in radius])
        untested = radius == rules.radii[-1]
        assert not formulas.proved(rules, tau, path, more)[claimed & ~untested].any()
    else:
        more = radius * (1 + 1e-6) + 1e-6
        assert not formulas.proved(rules, tau, path, more)[claimed].any()


@pytest.mark.parametrize("law", LAWS)
def test_radii_by_two_bounds_are_proved_and_no_larger_ones(law):
    rules, rng = procedure(law, tau=1e-6), np.random.default_rng(0)
    top = rng.integers(0, 1001, 2000)
    other = np.minimum(rng.integers(0, 1001, 2000), 1000 - top)
    radius = rules.claims(top[:, None], other).multiclass_radius
    claimed = radius > 0
    assert claimed.any()
    by_two = (rules, 1e-6, top, other)
    assert formulas.proved_by_two(*by_two, radius * (1 - 1e-9))[claimed].all()
    assert not formulas.proved_by_two(*by_two, radius * (1 + 1e-5) + 1e-5)[claimed].any()


def test_tau_is_worked_out_twice():
    for sigma, dimension in ((0.12, 784), (0.5, 3072), (1.0, 150_528)):
        assert formulas.tau_of(sigma, dimension) == tau_of(sigma, dimension)
    assert ABSTAIN == -1


@pytest.mark.parametrize("n", [20, 21, 100, 5000, 100_000])
@pytest.mark.parametrize("p", [0.5, 0.69, 0.977])
def test_looks_and_thresholds_of_radius_tests(n, p):
    """Those that certify keep back more of alpha, and may be one count larger."""
    looks = formulas.radius_looks(n)
    assert looks == radius_looks(n)
    found = np.array(formulas.thresholds(p, looks, 0.001))
    certify = threshold_table(p, looks, 0.001)[0]
    assert (found <= certify).all()
    assert (certify - found <= 1).all()


def test_the_thresholds_spend_no_more_than_alpha():
    """A third way: the law of the count, one sample at a time."""
    looks, p, alpha = formulas.radius_looks(60), 0.7, 0.01
    needed = dict(zip(looks, formulas.thresholds(p, looks, alpha), strict=True))
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
