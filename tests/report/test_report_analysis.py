"""The measures against known answers and the properties that tie them together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from smoothcert.errors import ConfigError
from smoothcert.report.measures.analysis import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
    certified_accuracy_linf,
    certified_accuracy_whp,
    certified_curve,
    clean_accuracy,
    default_radii,
    linf_radius,
    median_radius,
    published_rounding,
)

RADII = st.floats(0, 10, allow_subnormal=False)
RUNS = st.lists(st.tuples(RADII, st.booleans()), min_size=1, max_size=60)


def test_known_answers(make):
    c = make([0.0, 0.25, 0.5, 0.75, 2.0], correct=[1, 1, 1, 1, 0])
    assert certified_accuracy(c, [0, 0.25, 0.2501, 0.5, 0.75, 1]).tolist() == [
        0.8,
        0.6,
        0.4,
        0.4,
        0.2,
        0.0,
    ]
    assert average_certified_radius(c) == pytest.approx(1.5 / 5)
    assert clean_accuracy(c) == 0.8
    assert abstention_rate(c) == 0.2
    assert median_radius(c) == 0.375


def test_a_wrong_answer_is_no_abstention(make):
    c = make([1.0, 1.0], correct=[1, 0], predict=np.array([0, 3]))
    assert abstention_rate(c) == 0
    assert clean_accuracy(c) == 0.5


def test_no_correct_input(make):
    c = make([0.0, 0.3], correct=[0, 0])
    assert math.isnan(median_radius(c))
    assert average_certified_radius(c) == 0
    assert certified_accuracy(c, [0, 1]).tolist() == [0, 0]
    assert default_radii([c]) == [0.0]


@given(rows=RUNS, radii=st.lists(RADII, min_size=1, max_size=20), rounded=st.booleans())
def test_certified_accuracy_is_its_definition_and_falls(make, rows, radii, rounded):
    c = make([r for r, _ in rows], correct=[ok for _, ok in rows])
    radii = sorted(radii + [r for r, _ in rows])  # with every tie
    own = published_rounding(c.radius) if rounded else c.radius
    got = certified_accuracy(c, radii, rounded)
    assert got.tolist() == [(c.correct & (own >= r)).mean() for r in radii]
    assert (np.diff(got) <= 0).all()
    assert certified_accuracy(c, 0.0) == clean_accuracy(c)


@given(rows=RUNS, rounded=st.booleans())
def test_acr_is_the_area_under_the_curve(make, rows, rounded):
    c = make([r for r, _ in rows], correct=[ok for _, ok in rows])
    radii, share = certified_curve(c, rounded)
    assert radii[0] == 0
    assert (np.diff(radii) > 0).all()
    area = float((share[1:] * np.diff(radii)).sum())
    assert average_certified_radius(c, rounded) == pytest.approx(area, abs=1e-12)


@given(st.floats(0, 1e6))
def test_published_rounding_is_that_of_format(value):
    assert published_rounding([value]).tolist() == [float(f"{value:.3}")]


def test_published_rounding_keeps_shape_and_ties_of_binary():
    values = np.array([[1.905, 1.915, 1.9057], [0.0005, 1.2345e-5, 999.5]])
    assert published_rounding(values).tolist() == [
        [float(f"{v:.3}") for v in row] for row in values.tolist()
    ]
    assert published_rounding([1.9057])[0] == 1.91


@pytest.mark.parametrize(
    ("tops", "radii"),
    [
        ([0.953], [0.0, 0.25, 0.5, 0.75]),
        ([0.2, 1.91], [i * 0.25 for i in range(8)]),
        ([3.81], [i * 0.5 for i in range(8)]),
        ([0.25], [0.0, 0.25]),
        ([0.2], [0.0, 0.125]),
        ([40.0], [0.0, 8.0, 16.0, 24.0, 32.0, 40.0]),
        ([0.0], [0.0]),
    ],
)
def test_default_radii(make, tops, radii):
    assert default_radii([make([top]) for top in tops]) == radii


def test_high_probability_version_known_answer(make):
    """Alpha = rho = 0.001 and 500 inputs: 0.001 + sqrt(2 .001 .999 ln 1000 / 500) + ln 1000 / 1500."""
    c = make(np.linspace(0, 1, 500), alpha=0.001)
    loss = 0.001 + math.sqrt(2 * 0.001 * 0.999 * math.log(1000) / 500) + math.log(1000) / 1500
    assert loss == pytest.approx(0.01086, abs=1e-5)
    assert certified_accuracy_whp(c, [0.0, 0.5, 2.0]).tolist() == pytest.approx(
        [1 - loss, 0.5 - loss, 0.0]
    )
    assert certified_accuracy_whp(c, 0.0, alpha=0.01) < certified_accuracy_whp(c, 0.0)


@pytest.mark.parametrize("n", [10, 100, 500, 1000, 10_000])
@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("rho", [0.2, 0.05, 0.001, 1e-6])
def test_high_probability_version_holds_exactly(make, n, alpha, rho):
    """At worst, Binomial(N, alpha) certificates are false: the bound exceeds the true share with probability <= rho."""
    bound = float(certified_accuracy_whp(make(np.ones(n), alpha=alpha), 1.0, rho=rho))
    allowed = math.floor((1 - bound) * n + 1e-9)
    assert binom.sf(allowed, n, alpha) <= rho


def test_high_probability_version_is_not_idly_small(make):
    bound = float(certified_accuracy_whp(make(np.ones(200), alpha=0.05), 1.0, rho=0.1))
    assert binom.sf(math.floor((1 - bound - 0.05) * 200), 200, 0.05) > 0.1


def test_high_probability_version_where_alpha_is_for_all_inputs_together(make):
    manifest = {"identity": {"simultaneous": True}, "inputs": 500}
    together, each = (
        make(np.ones(500), alpha=a, manifest=m) for a, m in ((0.5, manifest), (0.001, None))
    )
    assert certified_accuracy_whp(together, 1.0) == certified_accuracy_whp(each, 1.0)


def test_high_probability_version_needs_alpha(make):
    with pytest.raises(ConfigError, match="alpha is not recorded"):
        certified_accuracy_whp(make([0.5]), 0.0)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        certified_accuracy_whp(make([0.5], alpha=0.001), 0.0, rho=1.0)


def test_linf_radius_is_that_of_the_largest_cube_within_the_ball(make):
    d = 3 * 32 * 32
    assert linf_radius(0.43471, d) * 255 == pytest.approx(
        2, abs=1e-4
    )  # SmoothAdv: 2/255 on CIFAR-10
    corner = np.full(d, linf_radius(1.0, d))
    assert np.linalg.norm(corner) == pytest.approx(1.0)
    c = make([0.434, 0.435, 2.0], [1, 1, 0])
    assert certified_accuracy_linf(c, [0.0, 2 / 255, 3 / 255], d).tolist() == pytest.approx(
        [2 / 3, 1 / 3, 0]
    )
    with pytest.raises(ConfigError, match="at least 1, found 0"):
        linf_radius(1.0, 0)
