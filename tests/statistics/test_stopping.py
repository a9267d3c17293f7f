"""Sequential procedures judged by exact dynamic programming over every sample path: nothing here is simulated."""

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from scipy import stats

from smoothcert.errors import ConfigError
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import LAWS, law_named
from smoothcert.statistics.stopping import (
    Level,
    RadiusTests,
    RepeatedBounds,
    radius_looks,
    threshold_table,
)

GAUSSIAN = law_named("gaussian")


class Table(NamedTuple):
    looks: tuple
    certify: np.ndarray
    futile: np.ndarray


def table_for(p0, looks, *levels):
    return Table(looks, *threshold_table(p0, looks, *levels))


def radius_tests(radii, sigma, n, alpha, *, tau=0.0, **more):
    return RadiusTests(radii, Level(GAUSSIAN, sigma, n, alpha, tau), **more)


def only_table(test):
    return Table(test.looks, test.certify[0], test.futile[0])


def repeated_bounds(tolerance, sigma, n, alpha, tau=0.0):
    return RepeatedBounds(tolerance, Level(GAUSSIAN, sigma, n, alpha, tau))


def outcomes(test, p, stop=True):
    """[(p_lower, radius or None, samples, probability)] if the class has probability p, exactly.

    Paths on which the same was decided are one: only the count decides what comes next.
    """
    live, found, before = {(): ((), np.ones(1))}, [], 0
    for t in test.looks:
        step = stats.binom.pmf(np.arange(t - before + 1), t - before, p)
        after, before = {}, t
        for path, mass in live.values():
            masses = np.convolve(mass, step)
            counts = np.flatnonzero(masses)
            paths = np.column_stack([np.tile(path, (len(counts), 1)), counts]).astype(int)
            judged = test.judge(paths)
            decided = test.decisions(paths) if isinstance(test, RadiusTests) else judged.p_lower
            for row, (count, state) in enumerate(zip(counts, decided, strict=True)):
                if t == test.looks[-1] or (stop and judged.finished[row]):
                    radius = None if np.isnan(judged.radius[row]) else judged.radius[row]
                    found.append((judged.p_lower[row], radius, t, masses[count]))
                else:
                    key = np.atleast_1d(state).tobytes()
                    _, merged = after.setdefault(key, (paths[row], np.zeros(t + 1)))
                    merged[count] += masses[count]
        live = after
    assert sum(weight for *_, weight in found) == pytest.approx(1.0, abs=1e-9)
    return found


def failure(test, p, stop=True):
    """Probability of claiming more than is true: "p is above p0" where p <= p0."""
    return sum(
        weight
        for p_lower, radius, _, weight in outcomes(test, p, stop)
        if radius is not None and p_lower >= p
    )


def paths(table, p, futility=True):
    """P(certified) and the mean number of samples of one table, exactly; only masses below 1e-25 are left out."""
    start, mass, before, certified, samples = 0, np.ones(1), 0, 0.0, 0.0
    for t, high, low in zip(table.looks, table.certify, table.futile, strict=True):
        m = t - before
        lo, hi = (int(stats.binom.ppf(q, m, p)) for q in (1e-25, 1.0))
        hi = min(hi, int(m * p + 12 * math.sqrt(m * p * (1 - p)) + 60))
        mass = np.convolve(mass, stats.binom.pmf(np.arange(lo, hi + 1), m, p))
        start, before = start + lo, t
        samples += m * mass.sum()  # whoever is still running draws these samples
        count = start + np.arange(len(mass))
        certified += mass[count >= high].sum()
        mass[(count >= high) | ((count <= low) & futility)] = 0.0
    return certified, samples


@pytest.mark.parametrize("alpha", [0.3, 0.01, 1e-7])
@pytest.mark.parametrize("p0", [0.5, 0.8413, 0.97])
def test_a_table_spends_at_most_alpha_by_rational_arithmetic(p0, alpha):
    """Thresholds rebuilt with fractions, without any rounding: the same ones, and P(ever certified) <= alpha."""
    looks = (20, 25, 32, 50)
    table = table_for(p0, looks, alpha)
    p, used, before = Fraction(p0), Fraction(0), 0
    mass = {0: Fraction(1)}
    for k, (t, high) in enumerate(zip(looks, table.certify, strict=True), start=1):
        m = t - before
        step = [math.comb(m, j) * p**j * (1 - p) ** (m - j) for j in range(m + 1)]
        after, before = {}, t
        for (count, weight), (j, share) in itertools.product(mass.items(), enumerate(step)):
            after[count + j] = after.get(count + j, 0) + weight * share
        tail = sum((weight for count, weight in after.items() if count >= high), Fraction(0))
        assert used + tail <= Fraction(alpha) * k / len(looks)
        if high <= t:
            assert used + tail + after.get(high - 1, 0) > Fraction(alpha) * k / len(looks) * (
                1 - Fraction(1, 10**8)
            )
        used += tail
        mass = {count: weight for count, weight in after.items() if count < high}
    assert used <= Fraction(alpha)


def test_a_long_table_is_accurate_in_its_tails():
    """P(ever certified) at p0, one sample after the other in 64-bit mantissas, at a level that a whole set needs."""
    p0, alpha = float(GAUSSIAN.probability(0.5, 0.25)), 1e-7
    table = table_for(p0, radius_looks(10_000), alpha)
    p, used, before = np.longdouble(p0), np.longdouble(0), 0
    mass = np.zeros(
        800, np.longdouble
    )  # by failures: 800 of 10000 at p0 = 0.977 are out of the question
    mass[0] = 1
    for t, high in zip(table.looks, table.certify, strict=True):
        for _ in range(t - before):
            mass[1:] = mass[1:] * p + mass[:-1] * (1 - p)
            mass[0] *= p
        before = t
        if high <= t:
            used += mass[: t - high + 1].sum()
            mass[: t - high + 1] = 0
    assert used <= alpha
    assert used > 0.8 * alpha


@pytest.mark.parametrize("beta", [0.001, 0.3])
@pytest.mark.parametrize("alpha", [0.001, 0.05])
@pytest.mark.parametrize("radius", [0.0, 0.1, 0.25, 0.4])
def test_a_radius_is_falsely_certified_with_probability_at_most_alpha(radius, alpha, beta):
    n, sigma = 2000, 0.25
    p0 = float(GAUSSIAN.probability(radius, sigma))
    table = only_table(radius_tests([radius], sigma, n, alpha, beta=beta))
    for p in [p0, np.nextafter(p0, 0), *np.linspace(0.01, p0, 12)]:
        without, _ = paths(table, p, futility=False)
        with_stops, _ = paths(table, p)
        assert with_stops <= without <= alpha
    assert (
        paths(table, p0, futility=False)[0] > 0.8 * alpha
    )  # and the check has power: alpha is nearly used up


@pytest.mark.parametrize("radius", [0.25, 0.5, 0.75])
def test_the_full_size_test_is_valid_has_power_and_saves_samples(radius):
    n, sigma, alpha = 100_000, 0.25, 0.001
    test = radius_tests([radius], sigma, n, alpha)
    p0, table = test.probabilities[0], only_table(test)
    assert paths(table, p0, futility=False)[0] <= alpha
    # where fixed-n certification is (nearly) sure, so is this, up to the chance of giving up early
    higher = float(stats.norm.cdf(radius / sigma + 0.3))
    certified, samples = paths(table, higher)
    assert certified > 0.995
    assert samples < n / 4
    lower = float(stats.norm.cdf(radius / sigma - 0.3))
    certified, samples = paths(table, lower)
    assert certified < 1e-5
    assert samples < n / 10
    # far from the threshold, hardly any samples are needed
    assert paths(table, 1 - (1 - p0) / 100)[1] < 60 / (1 - p0)
    assert paths(table, 0.5)[1] < 100


def test_giving_up_costs_at_most_its_share_of_power():
    table = table_for(0.9, radius_looks(3000), 0.01, 0.02)
    for p in (0.9, 0.91, 0.92, 0.95):
        assert 0 <= paths(table, p, futility=False)[0] - paths(table, p)[0] <= 0.02


def test_futility_never_meets_certification_and_the_last_look_decides():
    for p0, alpha in itertools.product((0.5, 0.7, 0.95, 0.9987), (0.001, 0.2)):
        table = table_for(p0, radius_looks(10_000), alpha)
        assert (table.futile < table.certify).all()
        assert table.futile[-1] == table.certify[-1] - 1


@pytest.mark.parametrize("stop", [True, False])
def test_a_grid_of_radii_claims_too_much_with_probability_at_most_alpha(stop):
    """Fixed sequence: one alpha for all radii together, at every true p, also between and at the grid's own."""
    alpha = 0.05
    test = radius_tests([0.0, 0.1, 0.2, 0.35], 0.25, 300, alpha, beta=0.1)
    worst = 0.0
    for p in [*test.probabilities, *np.linspace(0.05, 0.99, 15)]:
        found = failure(test, p, stop)
        assert found <= alpha
        worst = max(worst, found)
    assert worst > 0.5 * alpha
    # a sure thing gets the whole grid, a hopeless one nothing
    assert sum(w for _, radius, _, w in outcomes(test, 0.995) if radius == 0.35) > 0.97
    assert sum(w for _, radius, _, w in outcomes(test, 0.3) if radius is None) > 0.999


def test_a_grid_stops_as_soon_as_the_next_radius_is_given_up():
    """Against the rule, spelt out: decisions stand, and no radius counts without the smaller ones."""
    test, rng = radius_tests([0.1, 0.2, 0.3], 0.25, 300, 0.05), np.random.default_rng(0)
    seen = set()
    for p in rng.uniform(0.5, 1, 400):
        steps = rng.binomial(np.diff(test.looks, prepend=0), p + rng.uniform(-0.1, 0.1) * (p < 0.9))
        path, known = steps.cumsum(), [0, 0, 0]
        for look in range(len(path)):
            for place in range(3):
                high, low = test.certify[place, look], test.futile[place, look]
                known[place] = known[place] or int(path[look] >= high) - int(path[look] <= low)
            passed = next((place for place, answer in enumerate(known) if answer != 1), 3)
            (judged,) = zip(*test.judge(path[None, : look + 1]), strict=True)
            assert judged[2] == (passed == 3 or known[passed] == -1)
            assert (judged[1] == test.radii[passed - 1]) if passed else np.isnan(judged[1])
            seen.add((passed, bool(judged[2])))
    assert {(0, False), (0, True), (1, True), (3, True)} <= seen


@pytest.mark.parametrize("law", LAWS)
def test_inputs_are_judged_each_by_itself_and_those_without_samples_claim_nothing(law):
    level = Level(law_named(law), 0.25, 2000, 0.01, 1e-6)
    for test in (RadiusTests((0.0, 0.1), level), RepeatedBounds(0.05, level)):
        steps = np.random.default_rng(0).binomial(
            np.diff(test.looks, prepend=0), 0.9, (20, len(test.looks))
        )
        paths = steps.cumsum(1)
        paths[::5] = -1
        together = test.judge(paths)
        for row, path in enumerate(paths):
            alone = test.judge(path[None])
            assert alone.p_lower[0] == together.p_lower[row]
            np.testing.assert_equal(alone.radius[0], together.radius[row])
        assert np.isnan(together.radius[::5]).all()
        assert (together.p_lower[::5] == 0).all()


@pytest.mark.parametrize(("n", "alpha"), [(400, 0.05), (20_000, 0.001), (20_000, 0.3)])
def test_repeated_bounds_hold_all_at_once(n, alpha):
    """P(any look's bound exceeds p) <= alpha, exactly, at p just below values of the bounds: however it stops."""
    test = repeated_bounds(0.0, 0.25, n, alpha)
    assert sum(test.alphas) == pytest.approx(alpha)
    values = [
        bounds.lower_bound(np.arange(t + 1), t, a)
        for t, a in zip(test.looks, test.alphas, strict=True)
    ]
    worst = 0.0
    for p in [
        np.nextafter(v[int(len(v) * share)], 0)
        for v in values
        for share in (0.6, 0.8, 0.95, 0.99, 0.9999)
    ]:
        certify = [int(np.searchsorted(v, p, side="right")) for v in values]
        table = Table(test.looks, np.array(certify), np.full(len(certify), -1))
        failed, _ = paths(table, p, futility=False)
        assert failed <= alpha
        worst = max(worst, failed)
    assert worst > 0.7 * alpha  # and the check has power


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_repeated_bounds_with_their_stops_fail_with_probability_at_most_alpha(tolerance):
    alpha, test = 0.05, repeated_bounds(tolerance, 0.25, 200, 0.05)
    for p in (0.3, 0.5, 0.55, 0.7, 0.9, 0.97):
        assert failure(test, p) <= alpha


@pytest.mark.parametrize(
    ("p", "tolerance", "most"), [(0.3, 0.0, 100), (0.8, 0.2, 300), (0.99, 0.2, 250)]
)
def test_repeated_bounds_save_samples_and_little_radius(p, tolerance, most):
    """Expected over all paths: the radius is at most the tolerance below the one of fixed n, for fewer samples."""
    n, sigma, alpha = 500, 0.25, 0.001
    counts = np.arange(n + 1)
    fixed = GAUSSIAN.radius(bounds.lower_bound(counts, n, alpha), sigma)
    full = float((stats.binom.pmf(counts, n, p) * fixed).sum())
    found = outcomes(repeated_bounds(tolerance, sigma, n, alpha), p)
    assert sum(t * w for *_, t, w in found) < most
    assert (
        full - tolerance - 0.01
        < sum((radius or 0.0) * w for _, radius, _, w in found)
        < full + 0.01
    )


def test_tau_moves_the_threshold_and_the_bound_to_the_safe_side():
    plain, strict = (radius_tests([0.25], 0.25, 1000, 0.01, tau=tau) for tau in (0.0, 0.01))
    assert strict.certify[0, -1] > plain.certify[0, -1]
    assert strict.probabilities == plain.probabilities
    # samples may be more favourable than the truth by tau: p0 + tau is then the worst case
    assert paths(only_table(strict), strict.probabilities[0] + 0.01)[0] <= 0.01
    sure = [repeated_bounds(0.0, 0.25, 1000, 0.01, tau) for tau in (0.0, 0.01)]
    last = len(sure[0].looks) - 1
    without, cautious = (float(test.bound(last, 990)) for test in sure)
    assert cautious == pytest.approx(without - 0.01)


def test_looks():
    looks = radius_looks(100_000)
    assert looks[:4] == (20, 25, 32, 40)
    assert looks[-1] == 100_000
    assert len(looks) == 40
    assert radius_looks(20) == (20,)
    assert radius_looks(7) == (7,)
    assert repeated_bounds(0.0, 0.25, 100_000, 0.001).looks == (
        100,
        400,
        1600,
        6400,
        25_600,
        100_000,
    )
    one = repeated_bounds(0.0, 0.25, 30, 0.001)
    assert (one.looks, one.alphas) == ((30,), (0.001,))


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.0, 2.0])
def test_the_probability_of_a_radius_is_rounded_up(radius):
    p = float(GAUSSIAN.probability(radius, 0.25))
    with mpmath.workdps(50):
        exact = mpmath.ncdf(mpmath.mpf(radius) / mpmath.mpf(0.25))
        assert p > exact
        assert p - exact < 1e-11 * (1 - exact) + mpmath.mpf(2) ** -52


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radius_tests([], 0.25, 100, 0.01), "rising order"),
        (lambda: radius_tests([0.5, 0.25], 0.25, 100, 0.01), "rising order"),
        (lambda: radius_tests([-0.5], 0.25, 100, 0.01), "at least 0"),
        (lambda: radius_tests([float("nan")], 0.25, 100, 0.01), "at least 0"),
        (
            lambda: radius_tests([0.75], 0.25, 1000, 0.001),
            "cannot be certified with n = 1000",
        ),
        (
            lambda: radius_tests([9.0], 0.25, 1000, 0.001),
            "cannot be certified with n = 1000",
        ),
        (
            lambda: radius_tests([0.1], 0.25, 100, 1.0),
            "alpha is a failure probability",
        ),
        (
            lambda: repeated_bounds(-0.1, 0.25, 100, 0.01),
            "tolerance is a difference of radii",
        ),
    ],
)
def test_impossible_settings_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
