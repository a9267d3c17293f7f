"""Classes, bootstrap, envelope, seeds and trade-offs: known answers, and what each refuses."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.errors import ConfigError
from smoothcert.report import (
    average_certified_radius,
    certified_accuracy,
    overlays,
    paired_bootstrap,
    per_class,
    seed_groups,
    seed_summary,
    upper_envelope,
)
from smoothcert.report.measures.across_seeds import spread
from smoothcert.report.views.classes import class_table
from smoothcert.report.views.differences import radii_to_compare
from smoothcert.report.views.envelope import envelope_table
from smoothcert.report.views.seeds import seed_table


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def run(make):
    """A run with a config.yaml and a manifest; `method` and `seed` go into the first, the rest into the second."""

    def build(
        radius,
        method=None,
        *,
        name="run",
        seed=0,
        sigma=0.5,
        correct=None,
        partial=False,
        **identity,
    ):
        config = {
            "dataset": "mnist",
            "sigma": sigma,
            "method": method or {"name": "gaussian"},
            "seed": seed,
        }
        manifest = {
            "identity": {"sigma": sigma, "n": 1000, "seed": 0, "model": f"w{seed}", **identity}
        }
        expected = len(radius) + 1 if partial else None
        return make(
            radius,
            correct,
            name=name,
            sigma=sigma,
            config=config,
            manifest=manifest,
            expected=expected,
        )

    return build


def test_per_class_known_answers(make):
    c = make(
        [1.0, 0.4, 0.6, 2.0],
        [1, 1, 0, 1],
        label=np.array([0, 0, 7, 7]),
        predict=np.array([0, 0, -1, 7]),
    )
    zero, seven = per_class(c, [0.0, 0.5])
    assert (zero.label, zero.inputs, zero.acr, zero.abstention, zero.accuracy) == (
        0,
        2,
        0.7,
        0.0,
        (1.0, 0.5),
    )
    assert (seven.label, seven.inputs, seven.acr, seven.abstention, seven.accuracy) == (
        7,
        2,
        1.0,
        0.5,
        (0.5, 0.5),
    )


@given(
    st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.integers(0, 4)), min_size=1, max_size=40)
)
def test_per_class_values_add_up(make, rows):
    radius, correct, label = zip(*rows, strict=True)
    label = np.array(label)
    c = make(radius, correct, label=label, predict=np.where(correct, label, -1))
    classes = per_class(c, [0.5])
    assert sum(k.inputs for k in classes) == c.rows
    mean = sum(k.inputs * k.acr for k in classes) / c.rows
    assert mean == pytest.approx(average_certified_radius(c), abs=1e-12)
    share = sum(k.inputs * k.accuracy[0] for k in classes) / c.rows
    assert share == pytest.approx(float(certified_accuracy(c, 0.5)), abs=1e-12)


def test_class_table_shows_the_hardest_classes(make):
    c = make([1.0, 0.2, 0.6], label=np.arange(3), predict=np.arange(3))
    assert class_table([c], ("a", "b", "c"), most=2).head == ("run", "b", "c")
    assert class_table([c]).rows == (("run", "1.000", "0.200", "0.600"),)


@pytest.mark.parametrize("inputs", [1, 20, 500])
def test_equal_runs_may_differ_on_inputs_that_were_not_seen(make, inputs):
    """A share q of all inputs that differ would be missing among these with probability (1 - q)^N = 5 %."""
    run = make(np.linspace(0.5, 1.0, inputs))
    found = paired_bootstrap(run, run, rng(), radii=[0.7], resamples=20)
    (interval,) = found.accuracy
    assert interval.low == -interval.high
    assert (1 - interval.high) ** inputs == pytest.approx(0.05)
    assert (found.acr.value, math.isnan(found.acr.low), math.isnan(found.acr.high)) == (
        0,
        True,
        True,
    )
    assert not interval.excludes_zero
    assert not found.acr.excludes_zero


@pytest.mark.parametrize(("reached", "ends"), [(20, (1, -1)), (0, (-1, 1))])
def test_a_difference_on_all_inputs_is_not_one_on_all_others(make, reached, ends):
    """Those may differ by as much in the other direction."""
    ours, theirs = (
        make([1.0] * reached + [0.5] * (20 - reached)),
        make([0.5] * reached + [1.0] * (20 - reached)),
    )
    (interval,) = paired_bootstrap(ours, theirs, rng(), radii=[0.7], resamples=20).accuracy
    q = 1 - 0.05 ** (1 / 20)
    assert [interval.low, interval.high] == pytest.approx(
        sorted([ends[0], ends[0] + 2 * q * ends[1]])
    )
    assert interval.excludes_zero


def test_intervals_hold_the_difference_where_few_inputs_differ(make):
    """Of N inputs k differ with the probability of the binomial law, so that the coverage is a sum of these."""
    inputs, reference = 20, make([0.5] * 20)
    ends = []
    for k in range(inputs + 1):
        run = make([1.0] * k + [0.5] * (inputs - k))
        ends.append(paired_bootstrap(run, reference, rng(), radii=[0.7], resamples=500).accuracy[0])
    for share in (0.001, 0.01, 0.03, 0.05, 0.1, 0.13, 0.87, 0.95, 0.99, 0.999):
        law = [
            math.comb(inputs, k) * share**k * (1 - share) ** (inputs - k) for k in range(inputs + 1)
        ]
        assert (
            sum(p for p, end in zip(law, ends, strict=True) if end.low <= share <= end.high) >= 0.95
        )


def test_bootstrap_agrees_with_the_normal_approximation(make):
    n = 4000
    a, b = rng(1).exponential(1.0, n), rng(2).exponential(1.1, n)
    found = paired_bootstrap(make(a), make(b), rng(), radii=[1.0], resamples=3000)
    for interval, d in ((found.acr, a - b), (found.accuracy[0], (a >= 1) * 1.0 - (b >= 1))):
        half = 1.96 * d.std() / math.sqrt(n)
        assert interval.value == pytest.approx(d.mean())
        assert interval.low == pytest.approx(d.mean() - half, abs=0.12 * half)
        assert interval.high == pytest.approx(d.mean() + half, abs=0.12 * half)


def test_bootstrap_is_paired(make):
    """Two runs that differ by 0.01 on every input differ for sure, however much the inputs do among themselves."""
    a = rng(1).exponential(1.0, 200)
    found = paired_bootstrap(make(a + 0.01), make(a), rng(), resamples=200)
    assert found.acr.excludes_zero
    assert found.acr.high - found.acr.low < 1e-9


def test_bootstrap_covers(make):
    """Of 95 % intervals around a known difference, about 95 % hold it."""
    held = 0
    for trial in range(200):
        d = rng(trial).normal(0.3, 1.0, 100)
        held += (
            paired_bootstrap(
                make(d + 9), make(np.full(100, 9.0)), rng(trial), resamples=400
            ).acr.low
            <= 0.3
        )
    assert 185 <= held <= 200  # the lower end alone: 97.5 % of 200 is 195


def test_bootstrap_is_decided_by_its_generator(make):
    a, b = make(rng(1).random(50)), make(rng(2).random(50))
    assert paired_bootstrap(a, b, rng(3)) == paired_bootstrap(a, b, rng(3))
    assert paired_bootstrap(a, b, rng(3)) != paired_bootstrap(a, b, rng(4))


def test_bootstrap_counts_errors_as_zero_and_can_round(make):
    a, b = make([1.9057, 3.0], [1, 0]), make([1.0, 1.0])
    assert paired_bootstrap(a, b, rng()).acr.value == pytest.approx((1.9057 - 2) / 2)
    assert paired_bootstrap(a, b, rng(), rounded=True, radii=[1.91]).accuracy[0].value == 0.5


def test_bootstrap_refuses_other_inputs(make):
    a = make([0.5, 1.0])
    with pytest.raises(ConfigError, match="'run' has 2, 'run' has 2, and 1 are in both"):
        paired_bootstrap(a, make([0.5, 1.0], idx=np.array([1, 2])), rng())
    with pytest.raises(ConfigError, match="disagree on the labels"):
        paired_bootstrap(a, make([0.5, 1.0], label=np.array([0, 1])), rng())
    with pytest.raises(ConfigError, match="0 < level < 1"):
        paired_bootstrap(a, a, rng(), level=95)


def test_differences_are_shown_where_they_are_largest(make):
    base = make([2.0] * 10, name="base")
    radii = [i / 10 for i in range(21)]
    assert radii_to_compare([base, base], base, radii[:8], False) == radii[:8]
    loser = make([0.35] * 4 + [2.2] * 6, name="loser")
    shown = radii_to_compare([base, loser], base, radii, False)
    assert 0.4 in shown
    assert (shown[0], shown[-1]) == (0.0, 2.0)
    assert 6 <= len(shown) <= 8
    winner = radii_to_compare([base, loser], base, [*radii, 2.1], False)
    assert {0.4, 2.1} <= set(winner)
    assert len(winner) <= 8


def test_envelope_takes_the_best_run_and_breaks_ties_by_clean_accuracy(make):
    strong = make([2.0, 2.0, 0.0, 0.0], [1, 1, 0, 0], name="strong")
    clean = make([0.5, 0.5, 0.5, 0.1], name="clean")
    also = make([2.0, 2.0, 0.1, 0.0], [1, 1, 1, 0], name="also")
    found = upper_envelope([strong, clean, also], [0.0, 0.5, 1.0, 3.0])
    assert [(w.accuracy, w.run) for w in found] == [(1.0, 1), (0.75, 1), (0.5, 2), (0.0, 1)]
    assert [w.clean for w in found] == [1.0, 1.0, 0.75, 1.0]
    assert found[2].abstention == 0.25
    assert [w.tied for w in found] == [(1,), (1,), (2, 0), (1, 2, 0)]
    tie = ("1.00", "50.0", "also, strong (tie)", "75.0, 50.0")
    assert envelope_table([strong, clean, also], [0.5, 1.0, 3.0]).rows == (
        ("0.50", "75.0", "clean", "100.0"),
        tie,
    )
    with pytest.raises(ConfigError, match="at least one run"):
        upper_envelope([], [0.0])


def test_spread_is_the_sample_standard_deviation():
    assert spread([1.0, 2.0, 4.0]).mean == pytest.approx(7 / 3)
    assert spread([1.0, 2.0, 4.0]).std == pytest.approx(
        math.sqrt(((4 / 3) ** 2 + (1 / 3) ** 2 + (5 / 3) ** 2) / 2)
    )
    assert math.isnan(spread([1.0]).std)


def test_runs_that_differ_only_in_their_seed_are_grouped(run):
    mine = {"name": "consistency", "lam": 5.0}
    runs = [
        run([1.0], mine, seed=0),
        run([2.0], {"name": "consistency", "lam": 10.0}, seed=1),
        run([3.0], mine, seed=1),
        run([4.0], mine, seed=1, name="certified twice"),
        run([5.0], mine, seed=2, n=100),
        run([6.0, 6.0], mine, seed=3, partial=True),
        run([7.0], mine, seed=4),
    ]
    assert seed_groups(runs) == [[0, 2, 6]]
    summary = seed_summary([runs[i] for i in (0, 2, 6)], [2.0])
    assert (summary.runs, summary.acr.mean) == (3, pytest.approx(11 / 3))
    assert summary.accuracy[0].mean == pytest.approx(2 / 3)
    assert seed_table(runs, [2.0]).rows == (("run, ...", "3", "3.6667 ± 3.0551", "66.67 ± 57.74"),)
    assert seed_table(runs[:2], [2.0]) is None
    with pytest.raises(ConfigError, match="at least one run"):
        seed_summary([])


def test_trade_off_along_one_hyperparameter(run):
    def mix(eta, seed=0, **more):
        radius, correct = [eta / 10] * 4, [1, 1, 1, eta < 4]
        return run(radius, {"name": "smoothmix", "eta": eta, **more}, seed=seed, correct=correct)

    runs = [mix(5.0), mix(1.0), mix(1.0, seed=1), run([1.0])]
    joined, alone = overlays(runs, ())
    assert (joined.name, joined.parameter) == ("smoothmix", "eta")
    assert [(spot.value, spot.values[0]) for spot in joined.spots] == [(1.0, 1.0), (5.0, 0.75)]
    assert [spot.values[1] for spot in joined.spots] == pytest.approx([0.1, 0.375])
    assert (alone.parameter, len(alone.spots)) == ("", 1)
    both = overlays([*runs, mix(5.0, steps=8), mix(1.0, steps=8)], ())  # else the default, 4
    assert [(entry.parameter, len(entry.spots)) for entry in both] == [
        ("eta", 2),
        ("", 1),
        ("eta", 2),
    ]


def test_sigma_can_be_the_hyperparameter(run):
    joined, _ = overlays(
        [run([0.5], sigma=0.25), run([0.7], sigma=1.0), run([0.7], sigma=1.0, n=50)], ()
    )
    assert (joined.parameter, [spot.value for spot in joined.spots]) == ("sigma", [0.25, 1.0])


def test_no_configuration_no_seeds(make):
    assert seed_groups([make([0.5]), make([0.6])]) == []
