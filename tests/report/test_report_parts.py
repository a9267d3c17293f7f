"""The registries of tables and drawings: which are made, in which order, and what is said where one cannot be."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from smoothcert.errors import ConfigError
from smoothcert.report import (
    Material,
    Training,
    certificate_table,
    read_attacks,
    report_tables,
    save_figure,
    texts_together,
    write_tables,
)
from smoothcert.report.charts.drawings import DRAWINGS
from smoothcert.report.tables.corruptions import Corrupted
from smoothcert.report.tables.parts import PARTS
from tests.report.attack_stores import ABOUT, write_attacks

TRAINING = Training(
    "macer", "macer", [{"epoch": epoch, "lr": 0.1, "loss": 1.0 - epoch / 5} for epoch in range(3)]
)


@pytest.fixture
def runs(make):
    rng = np.random.default_rng(0)
    return [
        make(rng.exponential(0.5, 100), name=name, sigma=0.5) for name in ("gaussian", "smoothmix")
    ]


@pytest.fixture
def attacked(runs, tmp_path):
    """The runs as those of one classifier, and an attack on it."""
    manifest = {"identity": {**ABOUT, "norm": "l2"}, "inputs": 100, "environment": {}}
    answers = {(i, 0.5): int(i % 3 > 0) for i in range(100)}
    folder = write_attacks(
        tmp_path / "attack" / "pgd", {key: {"predict": k, "label": 0} for key, k in answers.items()}
    )
    return [replace(c, manifest=manifest) for c in runs], [read_attacks(folder)]


def test_by_default_the_main_table_as_it_was(runs):
    tables = report_tables(Material(runs))
    assert list(tables) == ["certified"]
    assert texts_together(tables["certified"]) == certificate_table(runs).to_text()


def test_what_is_given_expressly_is_shown_unasked(make, runs):
    unlabelled = make(
        [0.5, 0.6], [0, 0], label=np.array([-1, -1]), predict=np.array([3, 4]), sigma=0.5
    )
    tables = report_tables(
        Material([*runs, unlabelled], corrupted=[[Corrupted("m", "fog", 1, runs[0])]])
    )
    assert list(tables) == ["certified", "shares", "corruptions"]
    assert list(report_tables(Material([unlabelled]))) == ["certified"]


def test_files_of_several_tables(runs, tmp_path):
    benchmarks = [[Corrupted("m", "fog", 1, run)] for run in runs]
    tables = report_tables(
        Material(runs, corrupted=benchmarks), ["corruptions", "confidence", "certified"]
    )
    paths = {kind: tmp_path / f"t.{kind}" for kind in ("markdown", "latex", "csv")}
    written = write_tables(tables, **paths)
    names = [
        "t.markdown",
        "t.latex",
        "t.csv",
        "t-confidence.csv",
        "t-corruptions.csv",
        "t-corruptions-2.csv",
    ]
    assert [path.name for path in written] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    markdown, latex = paths["markdown"].read_text(), paths["latex"].read_text()
    assert (
        markdown.index("**Certified accuracy**")
        < markdown.index("**Confidence: ")
        < markdown.index("mACR")
    )
    assert (
        latex.count("\\begin{table}")
        == latex.count("\\caption{")
        == latex.count("\\end{table}")
        == 4
    )
    head, *rows = csv.reader((tmp_path / "t-confidence.csv").read_text().splitlines())
    assert head[:4] == ["run", "inputs", "p=0.5", "p=0.6"]
    assert [row[:3] for row in rows] == [
        ["gaussian", "100", "100.0"],
        ["smoothmix", "100", "100.0"],
    ]


def test_one_table_has_no_caption(runs, tmp_path):
    write_tables(
        report_tables(Material(runs)), markdown=tmp_path / "t.md", latex=tmp_path / "t.tex"
    )
    assert (tmp_path / "t.md").read_text() == certificate_table(runs).to_markdown()
    assert (tmp_path / "t.tex").read_text() == certificate_table(runs).to_latex()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shares", "all of these have labels"),
        ("confidence", "p_A is known, found none"),
        ("differences", "need a run with labels beside run, .* found no other run"),
        ("envelope", "needs two runs"),
        ("published", "made as a row of the papers was, found none"),
        ("corruptions", "needs certificates of a corruption benchmark"),
        ("tail", "a table is one of certified, .*, found 'tail'"),
    ],
)
def test_a_table_that_cannot_be_made(make, name, message):
    with pytest.raises(ConfigError, match=message):
        report_tables(Material([make([0.5])]), [name])


def test_every_table_of_the_registry_can_be_made(make, runs, attacked):
    unlabelled = make(
        [0.5, 0.6], [0, 0], label=np.array([-1, -1]), predict=np.array([3, 4]), sigma=0.5
    )
    corrupted = [[Corrupted("m", "fog", 1, runs[0])]]
    config = {"dataset": "mnist", "model": "lenet", "sigma": 0.5, "method": {"name": "gaussian"}}
    made = make([0.5] * 20, name="as printed", sigma=0.5, config=config)
    tables = report_tables(
        Material([*runs, made, unlabelled], corrupted=corrupted, attacks=attacked[1]), list(PARTS)
    )
    assert list(tables) == list(PARTS)
    assert all(table.caption for made in tables.values() for table in made)


@pytest.mark.parametrize("name", DRAWINGS)
@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_every_drawing_in_every_format(attacked, tmp_path, name, kind):
    if kind != "svg":
        pytest.importorskip("matplotlib")
    for file in ("a", "b"):
        given = {"attacks": attacked[1], "trainings": [TRAINING]}
        save_figure(attacked[0], tmp_path / f"{file}.{kind}", drawing=name, **given)
    content = (tmp_path / f"a.{kind}").read_bytes()
    assert len(content) > 1000
    assert content == (tmp_path / f"b.{kind}").read_bytes()


def test_a_name_is_no_formula(make, tmp_path):
    pytest.importorskip("matplotlib")
    runs = [make([0.5, 0.6], name="$\\broken"), make([0.5, 0.7], name="$a$ and $")]
    save_figure(
        runs, tmp_path / "a.png", drawing="differences"
    )  # matplotlib raises where a formula cannot be read
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_drawing_that_cannot_be_made(make, tmp_path):
    with pytest.raises(
        ConfigError, match=r"a drawing is one of accuracy, confidence.* found 'tail'"
    ):
        save_figure([make([0.5])], tmp_path / "a.svg", drawing="tail")
    with pytest.raises(ConfigError, match="p_A is known, found none"):
        save_figure([make([0.5])], tmp_path / "a.svg", drawing="confidence")
    with pytest.raises(ConfigError, match="differences need a run"):
        save_figure([make([0.5])], tmp_path / "a.svg", drawing="differences")
    assert not list(tmp_path.iterdir())
