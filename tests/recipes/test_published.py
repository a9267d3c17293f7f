"""The catalogue of published values: true to the papers and to the code."""

import dataclasses

import pytest
from smoothcert.published.rows import published_rows

from smoothcert.methods import METHODS, method_class
from smoothcert.published.catalogue import method_defaults
from tests.report.papers import paper_table


def test_defaults_are_those_of_the_code():
    assert {
        name: {
            field.name: field.default
            for field in dataclasses.fields(method_class(name))
            if field.name != "as_printed"  # a setting of the run
        }
        for name in METHODS
    } == method_defaults()


@pytest.mark.parametrize(
    ("paper", "number", "dataset"), [("catrs", 4, "fashion-mnist"), ("catrs", 5, "cifar100")]
)
def test_rows_are_the_printed_ones(paper, number, dataset):
    own = {
        (row.method["name"], row.sigma): row for row in published_rows() if row.dataset == dataset
    }
    for sigma, method, acr, *cells in paper_table(paper, number):
        row = own.pop((method, float(sigma)))
        assert row.acr == float(acr)
        assert [row.accuracy_at(0.25 * i) for i in range(len(cells))] == pytest.approx(
            [float(cell) / 100 for cell in cells], abs=1e-12
        )
    assert own == {}


def test_rows_of_mnist_are_the_printed_ones():
    means = {method: cells for method, *cells in paper_table("smoothmix", 5)}
    for sigma, method, acr, *cells in paper_table("smoothmix", 2):
        eta, _, one_step = method.partition("-")
        name = "smoothmix" if eta.startswith("eta") else method
        (row,) = (
            row
            for row in published_rows()
            if (row.dataset, row.method["name"], row.sigma) == ("mnist", name, float(sigma))
            and row.mean is not None
            and row.method.get("base", "gaussian") == "gaussian"
            and (
                name != "smoothmix"
                or (row.method["eta"], row.method["one_step"]) == (int(eta[3:]), bool(one_step))
            )
        )
        place = 2 * ("0.25", "0.50", "1.00").index(sigma)
        assert [row.acr, row.mean, row.std] == [
            float(acr),
            *map(float, means[method][place : place + 2]),
        ]
        assert [100 * row.accuracy_at(0.25 * i) for i in range(len(cells))] == pytest.approx(
            list(map(float, cells))
        )


def test_every_row_can_be_cited_and_compared():
    for row in published_rows():
        assert row.source[0].isalpha()
        assert row.acr is not None or row.mean is not None
        assert (row.mean is None) == (row.std is None)
        assert 0 < row.reference < 3.82 * row.sigma
        known = [share for share in row.accuracy if share is not None]
        assert known == sorted(known, reverse=True)
        assert row.method.keys() - {"name"} == method_defaults()[row.method["name"]].keys()


def test_beyond_the_printed_columns_nothing_is_claimed():
    (row,) = (row for row in published_rows() if row.dataset == "mnist" and row.acr == 1.823)
    assert row.accuracy_at(2.75) == pytest.approx(0.224)
    assert row.accuracy_at(3.0) is None  # a radius that some inputs reach
    assert row.accuracy_at(4.0) == 0.0  # none can
