"""p_A, its distribution and the saturation radius, against closed forms and SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from smoothcert.errors import ConfigError
from smoothcert.report import (
    certified_accuracy,
    confidence_table,
    p_ecdf,
    p_lower,
    saturation_radius,
)
from smoothcert.report.measures.confidence import normal_cdf, p_curve, saturation
from smoothcert.report.measures.norms import log_in_linf
from smoothcert.report.views.confidence import confidence_figure
from smoothcert.statistics import bounds
from smoothcert.statistics.laws import law_named
from tests.cli.commands import run
from tests.report.page import a_report, draw


@given(st.lists(st.floats(-8, 8), min_size=1))
def test_normal_cdf_is_scipys(x):
    np.testing.assert_allclose(normal_cdf(x), ndtr(x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("n", "alpha"), [(100_000, 0.001), (1000, 0.001), (2000, 0.05), (10, 0.001), (7, 0.01)]
)
def test_saturation_radius_is_that_of_a_unanimous_vote(n, alpha):
    expected = float(law_named("gaussian").radius(bounds.lower_bound(n, n, alpha), 0.5))
    assert saturation_radius(0.5, n, alpha, "gaussian") == pytest.approx(expected, rel=1e-9)


def test_saturation_radius_of_the_field():
    found = [
        round(saturation_radius(sigma, 100_000, 0.001, "gaussian"), 6)
        for sigma in (0.12, 0.25, 0.5, 1)
    ]
    assert found == [0.457375, 0.952864, 1.905728, 3.811457]
    assert saturation_radius(1.0, 5, 0.001, "gaussian") == 0  # too few to certify anything


@pytest.mark.parametrize("values", [(0, 100, 0.1), (1.0, 0, 0.1), (1.0, 100, 0.0), (1.0, 100, 1.0)])
def test_saturation_needs_sensible_values(values):
    with pytest.raises(ConfigError, match="expected sigma > 0"):
        saturation_radius(*values, "gaussian")


def test_saturation_of_a_log_is_known_only_if_its_largest_radius_shows_it(make):
    assert saturation(make([0.1, 1.91], sigma=0.5)) == pytest.approx(1.905728, abs=1e-6)
    assert saturation(make([0.1, 1.9], sigma=0.5)) is None
    assert saturation(make([1.91])) is None
    assert saturation(make([1.91], sigma=0.5, n=1000)) is None
    assert saturation(make([0.1], sigma=0.5, n=1000, alpha=0.001)) == pytest.approx(
        1.231631, abs=1e-5
    )


def test_saturation_of_a_store_is_that_of_its_procedure(make):
    known = {"sigma": 0.5, "n": 1000, "alpha": 0.001}
    together = make(
        [0.1], **known, manifest={"identity": {"alpha": 0.001, "simultaneous": True}, "inputs": 100}
    )
    assert saturation(together) == saturation_radius(0.5, 1000, 1e-5, "gaussian")
    again = make([0.1], **known | {"alpha": 0.01}, manifest=together.manifest)
    assert saturation(again) == saturation_radius(
        0.5, 1000, 0.0001, "gaussian"
    )  # another alpha is for all inputs together too
    sequential = make(
        [0.1], **known, manifest={"identity": {"alpha": 0.001, "procedure": "tolerance"}}
    )
    assert saturation(sequential) is None


def test_p_of_a_log_comes_back_from_its_radii(make):
    c = make([0.0, 0.5, 0.9], correct=[1, 1, 0], sigma=0.5)
    assert p_lower(c).tolist() == pytest.approx([0.5, ndtr(1.0), 0.0])  # the last one abstained
    wrong = make([0.9], correct=[0], sigma=0.5, predict=np.array([3]))
    assert p_lower(wrong).tolist() == pytest.approx([ndtr(1.8)])


def test_p_of_a_store_is_the_stored_one(make):
    stored = np.array([0.3, 0.99])
    assert p_lower(make([0.0, 1.0], p_lower=stored)) is stored
    with_gap = make([0.5, 1.0], p_lower=np.array([np.nan, 0.9]), sigma=0.5)
    assert p_lower(with_gap).tolist() == pytest.approx([ndtr(1.0), ndtr(2.0)])
    with pytest.raises(ConfigError, match="sigma is not known"):
        p_lower(make([0.5]))


def test_ecdf_known_answers(make):
    p = np.array([0.5, 0.9, 0.99, 0.999])
    c = make([0.0, 1.0, 2.0, 3.0], correct=[1, 1, 1, 0], p_lower=p)
    assert p_ecdf(c, [0.5, 0.9, 0.95, 0.99, 0.999, 1.0]).tolist() == [
        0.75,
        0.5,
        0.25,
        0.25,
        0.0,
        0.0,
    ]


@given(
    rows=st.lists(st.tuples(st.floats(0, 4), st.booleans()), min_size=1, max_size=50),
    sigma=st.floats(0.1, 2),
)
def test_ecdf_is_certified_accuracy_at_the_radius_of_p(make, rows, sigma):
    radius = np.array([r for r, _ in rows]) * sigma
    c = make(radius, correct=[ok for _, ok in rows], sigma=sigma)
    p = np.array([0.5, 0.6, 0.75, 0.9, 0.99])
    # away from ties, which rounding may move to either side
    near = [np.abs(radius - sigma * ndtri(q)).min() < 1e-9 for q in p]
    expected = certified_accuracy(c, sigma * ndtri(p))
    assert [a for a, skip in zip(p_ecdf(c, p), near, strict=True) if not skip] == [
        a for a, skip in zip(expected, near, strict=True) if not skip
    ]
    x, y = p_curve(c)
    assert (x[0], y[-1]) == (0.5, 0.0)
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) <= 0).all()


@pytest.mark.parametrize("p", [0.49, 1.01, [0.5, float("nan")]])
def test_ecdf_outside_its_range(make, p):
    with pytest.raises(ConfigError, match=r"in \[0.5, 1\]"):
        p_ecdf(make([0.5], sigma=0.5), p)


def test_answers_without_labels_are_not_called_correct(make):
    bare = {
        "label": np.full(2, -1),
        "correct": np.zeros(2, bool),
        "predict": np.array([0, 1]),
        "sigma": 0.5,
    }
    unlabelled, labelled = make([0.5, 1.0], name="bare", **bare), make([0.5, 1.0], sigma=0.5)
    assert confidence_table([unlabelled]).group == "answered (%) with confidence of at least p"
    assert confidence_table([labelled]).group == "correct (%) with confidence of at least p"
    shown = confidence_figure([unlabelled]).axes[0].get_ylabel()
    assert shown == "answered with confidence ≥ p"
    with pytest.raises(ConfigError, match="draw them apart"):
        confidence_figure([unlabelled, labelled])


def test_where_no_confidence_is_known_the_reason_is_told(make):
    converted = log_in_linf(make([0.5], sigma=0.5), 784)
    nameless = make([0.5], sigma=None)
    tested = make([0.5], sigma=0.5, manifest={"identity": {"procedure": "radius", "radii": [0.5]}})
    reasons = {
        "a log tells it by l2 radii alone, and its radii were converted to linf: leave the norm out": converted,
        "a log tells it by l2 radii alone, and its radii are in norm l1": make(
            [0.5], sigma=0.5, norm="l1"
        ),
        "logs whose path does not name sigma do not tell it": nameless,
        "certificates of chosen radii alone do not tell it": tested,
    }
    for reason, c in reasons.items():
        for what, made in (
            ("table", confidence_table),
            ("drawing", lambda runs: draw("confidence", a_report(runs))),
        ):
            with pytest.raises(ConfigError) as caught:
                made([c, c])
            told = f"a {what} of confidence needs a run whose p_A is known, found none: {reason}"
            assert str(caught.value) == told


def test_the_table_tells_of_partial_runs(make):
    partial = make(
        [0.3, 0.4], name="a", sigma=0.5, expected=5, warnings=("its last line is unfinished",)
    )
    table = confidence_table([partial, make([0.3, 0.4, 0.5], name="b", sigma=0.5)])
    told = ["a: partial, 2 of 5 inputs", "a: its last line is unfinished"]
    assert list(table.notes[:2]) == told
    assert table.notes[2].startswith("the runs cover different inputs (2 to 3 each, 2 in common)")
    for text in (
        table.to_text(terminal=False),
        table.to_text(terminal=True),
        table.to_markdown(),
        table.to_latex(),
    ):
        assert all(note in text for note in told)
    assert [line.split(",")[:2] for line in table.to_csv().splitlines()] == [
        ["run", "inputs"],
        ["a", "2 of 5"],
        ["b", "3"],
    ]


def test_tables_and_drawings_by_name(write_store, tmp_path, capsys):
    rows = [(i, 0, 0, radius) for i, radius in enumerate((0.25, 0.5, 0.75, 1.0) * 2)]
    store = write_store(rows, inputs=8)
    asked = ["--tables", "confidence", "accuracy", "--intervals", "--csv", tmp_path / "t.csv"]
    drawn = ["--figure", tmp_path / "c.svg", "--draw", "confidence"]
    printed = run(capsys, "report", store, *asked, *drawn)
    assert printed.index("Certified accuracy") < printed.index("Confidence")
    assert "ACR lower" in (tmp_path / "t.csv").read_text()
    assert "p=0.99 lower" in (tmp_path / "t-confidence.csv").read_text()
    assert "confidence p" in (tmp_path / "c.svg").read_text()
