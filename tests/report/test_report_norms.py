"""Every output names the norm of its radii, and l1 radii are never held against l2 ones."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.published.catalogue import load_table
from smoothcert.report import (
    certificate_table,
    curve_svg,
    log_in_linf,
    p_lower,
    read_log,
    read_store,
    save_figure,
    write_report,
)
from smoothcert.report.measures.confidence import has_confidence, saturation
from smoothcert.report.measures.published_comparison import differences_in_making
from smoothcert.report.page.sections import comparison
from smoothcert.report.tables.corruptions import Corrupted, corruption_table

L1 = {"noise": "laplace", "norm": "l1", "sigma": 0.5, "n": 1000, "alpha": 0.001}


@pytest.fixture
def laplace(write_store):
    return read_store(
        write_store([(0, 1, 1, 0.5), (1, 2, 2, 1.5)], inputs=2, noise="laplace", norm="l1")
    )


def page(tmp_path, *results):
    write_report(results, tmp_path / "page.html")
    return (tmp_path / "page.html").read_text()


def test_a_store_carries_its_norm(laplace, write_store, write_log):
    assert (laplace.norm, laplace.law) == ("l1", "laplace")
    gaussian = read_store(write_store([(0, 1, 1, 0.5)], name="gaussian", inputs=1))
    assert (gaussian.norm, gaussian.law) == ("l2", "gaussian")
    assert read_log(write_log([(0, 1, 1, 0.5)])).norm == "l2"


def test_the_tables_of_one_run_name_a_norm_other_than_l2(laplace, make):
    table = certificate_table([laplace])
    assert "all radii are in l1 norm, not l2" in table.notes
    assert table.to_csv().splitlines()[0].startswith("run,sigma,norm,inputs,ACR,")
    assert all(
        "l1 norm" in text for text in (table.to_text(), table.to_markdown(), table.to_latex())
    )
    usual = certificate_table([make([0.5])])
    assert usual.notes == ()
    assert "norm" not in usual.head


def test_the_page_names_the_norm(laplace, make, tmp_path):
    text = page(tmp_path, laplace)
    assert "smaller than r in ℓ₁ norm" in text
    assert "radius r (ℓ₁)" in text
    assert not re.search("ℓ₂|Φ", text)
    assert "smaller than r in ℓ₂ norm" in page(tmp_path, make([0.5]))
    assert "radius r (ℓ∞)" in page(tmp_path, make([0.5], norm="linf"))


def test_figures_name_the_norm(laplace, make, tmp_path):
    assert "radius r (ℓ₁ or ℓ₂)" in curve_svg([laplace, make([0.5])])
    assert "radius r (ℓ₂)" in curve_svg([make([0.5])])
    for norm in ("l1", "l2"):
        save_figure([make([0.5], norm=norm)], tmp_path / f"{norm}.png")
    assert (tmp_path / "l1.png").read_bytes() != (tmp_path / "l2.png").read_bytes()


def test_runs_in_two_norms_are_not_compared(make, tmp_path):
    runs = [make([0.5, 0.6], **L1), make([0.7, 0.8], sigma=0.5)]
    table = certificate_table(runs)
    assert table.best == frozenset()
    assert [row[2] for row in table.rows] == ["l1", "l2"]
    assert not any(comparison(runs, [0.0, 0.5], False).values())
    assert "Highest certified" not in page(tmp_path, *runs)
    assert any(comparison([runs[0], runs[0]], [0.0, 0.5], False).values())


def test_saturation_follows_the_law_of_the_noise(make):
    rest = 1 - 0.001 ** (1 / 1000)
    assert saturation(make([0.5], **L1)) == pytest.approx(
        -0.5 * math.sqrt(0.5) * math.log(2 * rest)
    )
    uniform = make([0.5], **(L1 | {"noise": "uniform"}))
    assert saturation(uniform) == pytest.approx(math.sqrt(3) * (0.5 - rest))
    assert saturation(make([0.01], norm="linf", sigma=0.5, n=1000, alpha=0.001)) is None


def test_confidence_is_not_recovered_from_radii_in_another_norm(make):
    bare = make([0.5], **L1)
    assert not has_confidence(bare)
    with pytest.raises(ConfigError, match="l2 radii only, found radii in norm l1"):
        p_lower(bare)
    assert has_confidence(make([0.5], p_lower=np.array([0.9]), **L1))


def test_published_values_are_l2(make):
    row = load_table("smoothmix-supplement/table-5").rows[9]
    usual, other = (differences_in_making(make([0.5], norm=norm), row) for norm in ("l2", "l1"))
    assert {*other} - {*usual} == {"norm = l1 here, l2 there"}


def test_corruption_tables_name_the_norm(laplace):
    assert corruption_table([Corrupted("m", "fog", 1, laplace)]).notes == (
        "all radii are in l1 norm, not l2",
    )


def test_l1_radii_betray_no_budget(make):
    log = make([0.5, 1.9], name="log", sigma=0.5)
    assert not any(
        "records no n" in note for note in certificate_table([make([0.5, 0.6], **L1), log]).notes
    )


@pytest.mark.parametrize(
    ("folder", "dimension", "values"),
    [
        ("cifar10", None, 3072),
        ("MNIST", None, 784),
        ("imagenet/cifar10", 12, 12),
        ("mine", 3, 3),
        ("mnist/fmnist", None, 784),
    ],
)
def test_logs_in_the_l_infinity_norm(make, folder, dimension, values):
    log = make([0.5, 1.0], source=Path("/logs", folder, "noise_0.5.tsv"))
    found = log_in_linf(log, dimension)
    assert found.norm == "linf"
    assert found.radius == pytest.approx(log.radius / values**0.5)
    assert (found.radius * values**0.5 <= log.radius).all()
    assert f"inputs with {values} values" in found.warnings[-1]
    assert ("as the folder" in found.warnings[-1]) is (dimension is None)


@pytest.mark.parametrize(
    ("folder", "found"), [("mine", "name no data set"), ("mnist/cifar10", "name cifar10 and mnist")]
)
def test_a_log_of_unknown_dimension_has_no_l_infinity_radii(make, folder, found):
    with pytest.raises(ConfigError, match=f"{found}: give the dimension"):
        log_in_linf(make([0.5], source=Path("/logs", folder, "noise_0.5.tsv")))


def test_l_infinity_radii_are_shown_in_steps_of_8_bit_images(make):
    table = certificate_table(
        [make([3.2 / 255, 2.1 / 255], norm="linf"), make([2 / 255], norm="linf")]
    )
    assert table.radii == ("0.00", "1/255", "2/255", "3/255")
    assert [row[-4:] for row in table.rows] == [
        ("100.0", "100.0", "100.0", "50.0"),
        ("100.0", "100.0", "100.0", "0.0"),
    ]
    assert table.rows[0][table.head.index("ACR")] == f"{2.65 / 255:.5f}"
    assert certificate_table([make([0.5])], [0.5, 2 / 255, 0.123456]).radii == (
        "0.50",
        "2/255",
        "0.123456",
    )
