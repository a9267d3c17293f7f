"""The page tells how its numbers were made, and by which commands they are made again."""

import re
import shlex

import pytest

from smoothcert.cli import main
from smoothcert.evaluation.reanalysis import reanalyse
from smoothcert.report import read_store
from tests.report.page import Page, report


def options(line):
    """Each option of a command with the words after it."""
    return {
        option: words.split()
        for option, words in re.findall(r"(--[a-z0-9-]+)((?: (?!--)\S+)*)", line)
    }


def test_provenance_tells_how_to_do_it_again(make, tmp_path, write_store):
    folder = write_store(
        [(0, 1, 1, 0.5)], inputs=1, dataset="mnist", split="test", every=20, max=None
    )
    config = "dataset: mnist\nmethod:\n  name: gaussian\nsigma: 0.5\nseed: 7\n"
    (folder.parent.parent / "config.yaml").write_text(config)
    page = Page(report(tmp_path, [read_store(folder)]))
    run = folder.parent.parent.as_posix()
    (commands,) = (part for part in page.text if part.startswith("smoothcert train"))
    train, certify, report_again = commands.splitlines()
    assert train == f"smoothcert train {run}/config.yaml --out {run}-again"
    assert certify.startswith(f"smoothcert certify {run} ")
    given = "--name test --split test --start 0 --every 20 --sigma 0.5 --n0 100 --n 1000 --alpha 0.001 --noise exact"
    assert options(certify) == options(f"{given} --precision float32 --kernels auto --seed 0")
    assert report_again == f"smoothcert report {run}/certify/test"
    texts = dict(zip(page.text, page.text[1:], strict=False))
    assert any("name: gaussian" in part for part in page.text)
    assert "smoothcert 0.1.0" in page.text
    assert {"7", "mnist test", "1 of 1"} <= set(page.text)
    assert texts["Manifest of the store:"] == ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"procedure": "radius", "radii": [0.0, 0.5]}, "--radius 0.0 0.5"),
        (
            {"procedure": "tolerance", "tolerance": 0.01, "precision": "bfloat16"},
            "--precision bfloat16 --tolerance 0.01",
        ),
        (
            {"skip_wrong": True, "simultaneous": True},
            "--skip-wrong --simultaneous",
        ),
    ],
)
def test_the_command_has_all_that_decides_the_certificates(
    make, tmp_path, write_store, settings, words
):
    folder = write_store([(0, 1, 1, 0.5)], inputs=1, dataset="mnist", split="test", **settings)
    page = Page(report(tmp_path, [read_store(folder)]))
    (commands,) = (part for part in page.text if part.startswith("smoothcert certify"))
    assert options(words).items() <= options(commands.splitlines()[0]).items()


@pytest.mark.parametrize(
    ("again", "shown", "words"),
    [
        ({}, {}, ""),
        (
            {},
            {"rounded": True, "radii": [0.0, 0.5], "intervals": True},
            "--radius 0.0 0.5 --rounded --intervals",
        ),
        ({"alpha": 0.01, "bound": "multiclass"}, {}, "--alpha 0.01 --bound multiclass"),
        (
            {"norm": "linf", "values": 784},
            {"rounded": True},
            "--norm linf --dimension 784 --rounded",
        ),
    ],
)
def test_the_command_of_the_report_has_all_that_changes_what_is_shown(
    tmp_path, write_store, again, shown, words
):
    folder = write_store([(0, 1, 1, 0.5)], inputs=1, dataset="mnist", split="test")
    results = [reanalyse(folder, **again)]
    page = Page(report(tmp_path, results, **shown))
    (commands,) = (part for part in page.text if part.startswith("smoothcert certify"))
    assert commands.splitlines()[-1] == f"smoothcert report {folder.as_posix()} {words}".rstrip()
    main(["report", *shlex.split(commands.splitlines()[-1])[2:]])  # it is one that can be given


def test_a_data_set_of_an_odd_name_is_shown_as_it_is(tmp_path, write_store):
    folder = write_store([(0, 1, 1, 0.5)], inputs=1, dataset="a b", split="test")
    page = Page(report(tmp_path, [read_store(folder)]))
    (commands,) = (part for part in page.text if part.startswith("smoothcert certify"))
    assert "--alpha 0.001" in commands


def test_the_command_of_a_corruption_names_it(make, tmp_path, write_store):
    folder = write_store([(0, 1, 1, 0.5)], inputs=1, dataset="mnist-c", split="fog/3")
    page = Page(report(tmp_path, [read_store(folder)]))
    (commands,) = (part for part in page.text if part.startswith("smoothcert certify"))
    assert " --data mnist-c:fog/3 " in commands
    assert "--split" not in commands
