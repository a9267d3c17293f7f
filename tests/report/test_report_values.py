"""What a report tells programs: the numbers behind the table, and nan where nothing is known."""

import math

import pytest

from smoothcert.report import certificate_table, corruption_values, report_values
from smoothcert.report.measures.corrupted import Corrupted


def test_a_log_knows_little_and_says_so(make):
    c = make([0.5, 1.0, 0.0, 0.2], correct=[1, 1, 0, 1], name="log", sigma=0.5)
    told = report_values([c], radii=[0, 0.5])
    (row,) = told["rows"]
    assert told["radii"] == [0, 0.5]
    assert row["acr"] == pytest.approx(1.7 / 4)
    assert (row["inputs"], row["expected"], row["partial"]) == (4, None, False)
    assert [
        row[key] for key in ("n", "n0", "alpha", "alpha_each", "seed", "procedure", "published")
    ] == [None] * 7
    assert row["certified_accuracy"] == [
        {"radius": 0, "accuracy": 0.75, "interval": None, "lower": None, "share": 0.75},
        {"radius": 0.5, "accuracy": 0.5, "interval": None, "lower": None, "share": 0.5},
    ]


def test_lower_bounds_by_bernsteins_inequality(make):
    """The share that fails is at most alpha + sqrt(2 alpha (1 - alpha) ln(1/rho) / N) + ln(1/rho) / 3N, rho = 0.001."""
    c = make([1.0] * 400, alpha=0.001, n=1000)
    (entry,) = report_values([c], radii=[0.5])["rows"][0]["certified_accuracy"]
    rho = math.log(1000)
    assert entry["lower"] == pytest.approx(
        1 - 0.001 - math.sqrt(2 * 0.001 * 0.999 * rho / 400) - rho / 1200, rel=1e-12
    )


def test_what_was_not_tested_is_no_number(make):
    manifest = {
        "identity": {"procedure": "radius", "radii": [0.5], "noise_seed": 7},
        "inputs": 2,
        "environment": {},
    }
    c = make([0.5, 0.5], name="tested", manifest=manifest, alpha=0.01)
    (row,) = report_values([c], radii=[0, 0.5])["rows"]
    assert math.isnan(row["acr"])
    assert math.isnan(row["clean_accuracy"])
    assert [math.isnan(entry["accuracy"]) for entry in row["certified_accuracy"]] == [True, False]
    assert [math.isnan(entry["lower"]) for entry in row["certified_accuracy"]] == [True, False]
    assert (row["procedure"], row["seed"]) == ("radius", 7)


def test_values_are_those_that_the_table_prints(make):
    runs = [
        make([0.123, 0.9, 0.5], name="a", sigma=0.5),
        make([0.3, 0.0, 0.7], correct=[1, 0, 1], name="b", sigma=1.0),
    ]
    told, table = report_values(runs), certificate_table(runs)
    assert told["notes"] == list(table.notes)
    for row, cells in zip(told["rows"], table.rows, strict=True):
        shares = [
            row["abstention_rate"],
            *(entry["accuracy"] for entry in row["certified_accuracy"]),
        ]
        assert cells == (
            row["name"], f"{row['sigma']:g}", str(row["inputs"]), f"{row['acr']:.3f}",
            *(f"{100 * share:.1f}" for share in shares),
        )  # fmt: skip


def test_corruptions_by_severity_and_over_all(make):
    entries = [
        Corrupted("m", kind, severity, make([0.1 * severity]))
        for severity, kind in ((1, "fog"), (2, "frost"))
    ]
    first, second, overall = corruption_values(entries)
    assert [entry["severity"] for entry in (first, second, overall)] == [1, 2, None]
    assert [entry["acr"] for entry in (first, second, overall)] == pytest.approx([0.1, 0.2, 0.15])
    assert overall.keys() == {"model", "severity", "acr", "accuracy"}


def test_the_published_value_stands_beside_ours(make):
    method = {"name": "gaussian"}
    config = {"dataset": "mnist", "model": "lenet", "sigma": 0.5, "method": method}
    c = make([1.5] * 10_000, config=config, sigma=0.5, n=100_000, alpha=0.001)
    told = report_values([c])["rows"][0]["published"]
    assert told.keys() == {"acr", "std", "source", "difference"}
    assert told["difference"] == pytest.approx(1.5 - told["acr"])
    fewer = report_values([c.where(c.idx < 500)])["rows"][0]["published"]
    assert (fewer["acr"], fewer["difference"]) == (
        told["acr"],
        None,
    )  # on other inputs: not to be compared
