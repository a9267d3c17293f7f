"""`smoothcert attack`, and `report` after it: both accuracies, and a loud alarm where they contradict each other."""

import json
import re
import shutil

import pytest

from smoothcert.runs.store import ResultStore
from tests.cli.commands import ends, fails, run
from tests.verification.simulated import invented, tamper


def test_attack_prints_both_accuracies_and_draws_them(capsys, certified, tmp_path):
    arguments = [
        "--radius",
        0,
        0.5,
        "--noises",
        4,
        "--steps",
        3,
        "--n",
        100,
        "--max",
        3,
        "--against",
        "six",
    ]
    printed = run(capsys, "attack", certified, *arguments, "--svg", tmp_path / "attack.svg")
    assert re.search(r"0\.5 +3( +\d+\.\d){5}\n", printed)
    assert "SOUNDNESS ALARM" not in printed
    assert ">pgd</text>" in (tmp_path / "attack.svg").read_text()
    assert (certified / "attack" / "pgd" / "manifest.json").exists()
    shown = run(capsys, "report", certified / "certify" / "six", certified / "attack" / "pgd")
    assert re.search(r"a/six +3 +certified +- +- +\d+ +\d+\.\d +\d+\.\d\n", shown)
    assert re.search(r"a/six +3 +under pgd +3 +4 +100 +\d+\.\d +\d+\.\d\n", shown)
    assert re.search(r"a/six +none +0\.00 +3( +\d+\.\d){4}\n", shown)
    drawn = [
        "--figure",
        tmp_path / "drawn.svg",
        "--draw",
        "attacks",
        "--html",
        tmp_path / "page.html",
        "--json",
    ]
    (told,) = json.loads(run(capsys, "report", certified, *drawn))["attacks"]
    assert (told["attack"], told["steps"], told["noises"], told["n"]) == ("pgd", 3, 4, 100)
    assert [row["radius"] for row in told["attacked"]] == [0.0, 0.5]
    assert all(row["certified"] <= row["empirical"] + row["abstained"] for row in told["attacked"])
    assert "Under attack" in (tmp_path / "page.html").read_text()
    again = [
        "--radius",
        0.5,
        "--noises",
        4,
        "--steps",
        3,
        "--n",
        100,
        "--max",
        3,
        "--name",
        "b",
    ]  # no `test`
    assert "draws certificates too" in fails(
        capsys, "attack", certified, *again, "--svg", tmp_path / "b.svg"
    )


@pytest.mark.parametrize("name", ["sixx", "../certify/six", ""])
def test_certificates_that_are_named_must_be_there(capsys, certified, name):
    """Without them there would be no alarm, and nobody would know."""
    told = fails(capsys, "attack", certified, "--radius", 0.5, "--against", name, "--name", "c")
    stores = f"the name of a store in {certified / 'certify'}, is one of six"
    assert re.search(rf"{re.escape(stores)}.*, found '{re.escape(name)}'; ", told)
    assert not (certified / "attack" / "c").exists()


def test_certificates_of_a_run_that_has_none(capsys, certified, tmp_path):
    bare = shutil.copytree(
        certified, tmp_path / "bare", ignore=shutil.ignore_patterns("certify", "attack")
    )
    told = fails(capsys, "attack", bare, "--radius", 0.5, "--against", "six")
    assert (
        f"--against six is a store of certificates, and {bare / 'certify'} has none: certify first"
        in told
    )
    few = ["--radius", 0.5, "--noises", 1, "--steps", 1, "--n", 100, "--max", 1]
    assert re.search(
        r"0\.5 +1 +\d+\.\d +\d+\.\d +- ", run(capsys, "attack", bare, *few)
    )  # the default may be absent


def test_an_alarm_is_printed_loudly(capsys, certified, tmp_path):
    """Counts that were invented prove radii of another class: the attack contradicts them."""
    source = ResultStore(certified / "certify" / "six")
    wrong = invented(certified / "certify" / "wrong", source, lambda row: 9 - int(row["label"]))
    arguments = ["--radius", 0.5, "--noises", 4, "--steps", 5, "--n", 100, "--max", 6]
    arguments += ["--against", "wrong", "--name", "w"]
    assert re.search(
        r"SOUNDNESS ALARM: .*, pgd at radius 0.5: \d of 6 inputs \(.*\) answers? otherwise inside "
        r"(its|their) certified radius",
        run(capsys, "attack", certified, *arguments),
    )
    _, said = ends(
        capsys,
        "report",
        certified / "certify" / "six",
        certified / "attack" / "w",
        "--tables",
        "accuracy",
    )
    assert said.err.startswith("SOUNDNESS ALARM: a/six, pgd at radius 0.5")
    shutil.rmtree(wrong.folder)
    shutil.rmtree(certified / "attack" / "w")


def test_certificates_that_their_counts_do_not_prove_are_not_compared_with(capsys, certified):
    """A radius that was raised would raise a false alarm."""
    store = ResultStore(shutil.copytree(certified / "certify" / "six", certified / "certify" / "x"))
    tamper(store, lambda _: {"radius": "3.5"}, lambda cells: cells["predict"] != "-1")
    words = ["--radius", 0.25, "--n", 20, "--max", 1, "--steps", 1, "--noises", 1, "--name", "x"]
    assert "part-0-of-1.tsv, line 2" in fails(capsys, "attack", certified, "--against", "x", *words)
    assert not (certified / "attack" / "x").exists()
    shutil.rmtree(store.folder)


def test_as_printed_predict_takes_100000_samples(capsys, certified):
    """Radius 0 is PREDICT over the data set (SmoothAdv, appendix D)."""
    words = ["attack", certified, "--radius", 0, "--max", 1, "--name", "predict", "--as-printed"]
    assert "n = 100000 and alpha = 0.001" in run(capsys, *words)
    identity = json.loads((certified / "attack" / "predict" / "manifest.json").read_text())
    assert (identity["identity"]["n"], identity["identity"]["as_printed"]) == (100_000, True)
    assert "n = 50 and" in run(capsys, *words[:-2], "few", "--as-printed", "--n", 50)
