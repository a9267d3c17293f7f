"""Bounds against exact enumeration, extended precision and SciPy's own distributions."""

import inspect
import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothcert.errors import ConfigError
from smoothcert.statistics import bounds, laws, procedure, saturation, stopping
from smoothcert.statistics.laws import LAWS, law_named

GAUSSIAN = law_named("gaussian")


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("n", [1, 5, 30, 200])
def test_lower_and_upper_bound_cover_by_exact_enumeration(n, alpha):
    """For every true p, the bound exceeds p with probability at most alpha: summed exactly, not simulated."""
    counts = np.arange(n + 1)
    lower, upper = bounds.lower_bound(counts, n, alpha), bounds.upper_bound(counts, n, alpha)
    # the worst p lie just below a value of the bound, where one more count starts to fail
    worst = np.concatenate([np.nextafter(lower[1:], 0), np.linspace(0.001, 0.999, 50)])
    for p in worst:
        mass = stats.binom.pmf(counts, n, p)
        assert mass[lower > p].sum() <= alpha * (1 + 1e-9)
        assert mass[upper < p].sum() <= alpha * (1 + 1e-9)
    # and it is not needlessly cautious: at its own values it fails with almost exactly alpha
    for k in (1, n):
        assert stats.binom.sf(k - 1, n, lower[k]) == pytest.approx(alpha, rel=1e-6)


@given(
    st.integers(1, 200_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(1e-6, 0.5),
)
def test_lower_bound_equals_the_beta_quantile(case, alpha):
    k, n = case
    expected = 0.0 if k == 0 else stats.beta.ppf(alpha, k, n - k + 1)
    assert float(bounds.lower_bound(k, n, alpha)) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(
    ("k", "n"),
    [(1, 10), (50_490, 100_000), (99_000, 100_000), (99_999, 100_000), (100_000, 100_000)],
)
def test_lower_bound_is_below_the_exact_root(k, n):
    """P(Bin(n, p) >= k) at the returned p, in 60 digits, does not exceed alpha: the rounding is on the safe side."""
    alpha = 0.001
    p = float(bounds.lower_bound(k, n, alpha))
    with mpmath.workdps(60):
        tail = _upper_tail(k, n, mpmath.mpf(p))
        assert tail <= mpmath.mpf(alpha)
        assert tail >= mpmath.mpf(alpha) * (1 - mpmath.mpf(10) ** -5)


def _upper_tail(k, n, p):
    """P(Bin(n, p) >= k), term by term: each is the one before times (n-j)/(j+1) p/(1-p)."""
    log_term = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
    term = mpmath.exp(log_term + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p))
    total, odds = mpmath.mpf(0), p / (1 - p)
    for j in range(k, n + 1):
        total += term
        term *= odds * (n - j) / (j + 1)
        if term < total * mpmath.mpf(10) ** -50:
            break
    return total


@pytest.mark.parametrize("p", [0.5000001, 0.6, 0.9, 0.99993092, 1 - 1e-9])
@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0])
def test_radius_is_below_the_exact_quantile(p, sigma):
    r = float(GAUSSIAN.radius(p, sigma))
    with mpmath.workdps(60):
        exact = mpmath.mpf(sigma) * mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)
        assert r <= exact
        assert r == pytest.approx(float(exact), rel=1e-8)


def test_abstention_threshold_and_saturation_of_the_published_protocol():
    lower = bounds.lower_bound([50_489, 50_490], 100_000, 0.001)
    assert lower[0] < 0.5 <= lower[1]
    saturated = bounds.lower_bound(100_000, 100_000, 0.001)
    assert float(GAUSSIAN.radius(saturated, 1.0)) == pytest.approx(3.811457, abs=5e-7)
    for sigma, published in {0.12: 0.457375, 0.25: 0.952864, 0.5: 1.905728}.items():
        assert float(GAUSSIAN.radius(saturated, sigma)) == pytest.approx(published, abs=5e-7)


def test_nothing_is_certified_at_or_below_one_half():
    assert GAUSSIAN.radius([0.0, 0.3, 0.5], 1.0).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("alpha", "least"), [(0.001, 10), (0.5, 1), (0.05, 5), (0.25, 2), (1e-6, 20)]
)
def test_smallest_n(alpha, least):
    assert bounds.smallest_n(alpha) == least
    bounds.check_samples(1, least, alpha)
    if least > 1:
        assert float(bounds.lower_bound(least - 1, least - 1, alpha)) < 0.5
        with pytest.raises(ConfigError, match=f"use n >= {least}"):
            bounds.check_samples(1, least - 1, alpha)


@given(st.integers(0, 400), st.integers(0, 400))
def test_top_two_p_value_is_the_exact_binomial_test(a, b):
    if a + b == 0:
        assert float(bounds.top_two_p_value(a, b)) == 1.0
    else:
        expected = stats.binomtest(a, a + b, 0.5).pvalue
        assert float(bounds.top_two_p_value(a, b)) == pytest.approx(expected, rel=1e-9)


def true_probability(margin, sigma, law):
    """Of the class of x when one coordinate is `margin` away from where the class changes, in 40 digits."""
    margin, sigma = mpmath.mpf(margin), mpmath.mpf(sigma)
    if law == "gaussian":
        return mpmath.ncdf(margin / sigma)
    if law == "uniform":
        return min(mpmath.mpf(1), (1 + margin / (sigma * mpmath.sqrt(3))) / 2)
    return 1 - mpmath.exp(-margin * mpmath.sqrt(2) / sigma) / 2


@pytest.mark.parametrize("law", ["gaussian", "uniform", "laplace"])
@pytest.mark.parametrize("margin", [1e-4, 0.1, 0.35, 0.43])
def test_radii_are_tight_for_a_threshold_on_one_coordinate_and_rounded_down(law, margin):
    """There the true radius is the margin itself, in any norm, and no bound may exceed it."""
    with mpmath.workdps(40):
        p = true_probability(margin, 0.25, law)
        below = np.nextafter(float(p), 0)
        found = float(law_named(law).radius(below, 0.25))
        assert found <= margin
        assert found == pytest.approx(margin, rel=1e-7)
        assert law_named(law).probability(margin, 0.25) > p
        assert float(law_named(law).probability(margin, 0.25)) == pytest.approx(float(p), abs=3e-12)


def test_no_caller_can_forget_the_law_of_the_noise():
    """A default would make a radius of other noise Gaussian, and often too large."""
    for module in (laws, procedure, saturation, stopping):
        own = [f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__]
        taken = [inspect.signature(function).parameters for function in own if callable(function)]
        found = [parameters["law"] for parameters in taken if "law" in parameters]
        assert all(law.default is inspect.Parameter.empty for law in found)
    with pytest.raises(ConfigError, match="found 'ablation'"):
        law_named("ablation")


@pytest.mark.parametrize("law", LAWS)
def test_a_law_is_one_object_in_every_process(law):
    assert pickle.loads(pickle.dumps(law_named(law))) is law_named(law)


def test_uniform_noise_cannot_certify_beyond_its_own_half_width():
    assert float(law_named("uniform").radius(1.0, 1.0)) == pytest.approx(math.sqrt(3))
    assert law_named("uniform").probability(1.8, 1.0) >= 1.0
    assert [law.norm for law in LAWS.values()] == ["l2", "l1", "l1"]


def test_l_infinity_radius_is_rounded_down():
    r = bounds.linf_radius([0.0, 1.0, 0.3], 3072)
    assert (r * math.sqrt(3072) <= [0.0, 1.0, 0.3]).all()
    assert r == pytest.approx(np.array([0.0, 1.0, 0.3]) / math.sqrt(3072))
    with pytest.raises(ConfigError, match="at least 1, found 0"):
        bounds.linf_radius(1.0, 0)


def by_two_bounds(top, other, n, alpha, law):
    p_a = bounds.lower_bound(top, n, procedure.SPLIT * alpha)
    p_b = bounds.upper_bound(other, n, (1 - procedure.SPLIT) * alpha)
    return law_named(law).multiclass_radius(p_a, p_b, 1.0)


def true_multiclass(p_a, p_b, law):
    if law == "gaussian":
        return 0.5 * (stats.norm.ppf(p_a) - stats.norm.ppf(p_b))
    if law == "uniform":
        return math.sqrt(3) * (p_a - p_b)
    return math.sqrt(0.5) * max(0.5 * math.log(p_a / p_b), -math.log(1 - p_a + p_b))


@pytest.mark.parametrize("law", ["gaussian", "uniform", "laplace"])
def test_multiclass_radius_fails_with_probability_at_most_alpha(law):
    """Exact enumeration over all counts of three classes: the radius exceeds the true one with probability <= alpha."""
    n, alpha = 30, 0.05
    log_factorial = np.array([math.lgamma(i + 1) for i in range(n + 1)])
    a, b = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    a, b = a[a + b <= n], b[a + b <= n]
    c = n - a - b
    claimed = by_two_bounds(a, np.maximum(b, c), n, alpha, law)
    coefficients = log_factorial[n] - log_factorial[a] - log_factorial[b] - log_factorial[c]
    rng, worst = np.random.default_rng(0), 0.0
    for p in rng.dirichlet([2, 1, 1], size=300):
        true = max(0.0, true_multiclass(p[0], max(p[1], p[2]), law))
        mass = np.exp(coefficients + a * np.log(p[0]) + b * np.log(p[1]) + c * np.log(p[2]))
        worst = max(worst, float(mass[claimed > true].sum()))
    assert 0.01 < worst <= alpha  # and the check has power: the bound is nearly used up somewhere


@pytest.mark.parametrize("law", ["gaussian", "uniform", "laplace"])
@pytest.mark.parametrize("p_a", [0.6, 0.9, 0.999])
def test_both_radii_agree_where_only_two_classes_exist(p_a, law):
    """Then the two-class formula is the binary one, up to the share of alpha that goes to the second class."""
    n = 10**7
    binary = law_named(law).radius(bounds.lower_bound(round(p_a * n), n, 0.9e-3), 1.0)
    both = by_two_bounds(round(p_a * n), n - round(p_a * n), n, 1e-3, law)
    assert float(both) == pytest.approx(float(binary), rel=2e-3)


@pytest.mark.parametrize(
    ("p_a", "p_b", "binary", "multiclass"),
    [(0.45, 0.20, 0.0, 0.34), (0.70, 0.15, 0.512, 0.77), (0.99, 0.005, 2.290, 2.41)],
)
def test_multiclass_radius_gains_where_the_rest_is_spread(p_a, p_b, binary, multiclass):
    n = 100_000
    assert float(GAUSSIAN.radius(bounds.lower_bound(p_a * n, n, 0.001), 1.0)) == pytest.approx(
        binary, abs=0.001
    )
    assert float(by_two_bounds(p_a * n, p_b * n, n, 0.001, "gaussian")) == pytest.approx(
        multiclass, abs=0.01
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.lower_bound(3, 10, 0.0), "alpha is a failure probability"),
        (lambda: bounds.lower_bound(3, 10, 1.0), "alpha is a failure probability"),
        (lambda: bounds.lower_bound(3, 10, float("nan")), "alpha is a failure probability"),
        (lambda: bounds.lower_bound(11, 10, 0.1), "from 0 to n >= 1"),
        (lambda: bounds.lower_bound(-1, 10, 0.1), "from 0 to n >= 1"),
        (lambda: GAUSSIAN.radius(0.9, 0.0), "sigma, the standard deviation"),
        (lambda: GAUSSIAN.radius(0.9, -1.0), "sigma, the standard deviation"),
        (lambda: GAUSSIAN.radius(0.9, float("inf")), "sigma, the standard deviation"),
        (lambda: bounds.check_samples(0, 100, 0.1), "n0, the number of selection samples"),
    ],
)
def test_impossible_values_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


@pytest.mark.parametrize("wrong", ["0.1", None, [0.1]])
def test_what_is_no_number_is_refused_in_words(wrong):
    with pytest.raises(ConfigError, match=r"alpha is a failure probability.* found"):
        bounds.check_alpha(wrong)
    with pytest.raises(ConfigError, match=r"sigma, the standard deviation.* found"):
        bounds.check_sigma(wrong)
