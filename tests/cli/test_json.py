"""--json: one document on stdout whatever happens, with the numbers that the text has."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from smoothcert import __version__
from smoothcert.cli import main
from smoothcert.cli.output import print_json
from smoothcert.report import average_certified_radius, read_store
from tests.cli.commands import ends
from tests.report.attack_stores import write_attacks


def outcome(capsys, *words):
    """Exit status, the document on stdout (the whole of it), and stderr."""
    status, said = ends(capsys, *words)
    document = json.loads(said.out, parse_constant=lambda word: pytest.fail(f"JSON has no {word}"))
    assert document.pop("smoothcert") == __version__
    return status, document, said.err


def test_plain_values(capsys):
    odd = [math.nan, math.inf, -math.inf, np.float64("nan")]
    print_json(
        {
            "a": odd,
            "b": (Path("x/y"), np.int64(3), np.arange(2)),
            1: {"é\x1b": "é\udc80"},
            "c": [True, None],
        }
    )
    text = capsys.readouterr().out
    assert text.isascii()
    found = json.loads(text)
    assert found == {
        "smoothcert": __version__, "a": [None] * 4, "b": ["x/y", 3, [0, 1]], "1": {"é\x1b": "é\udc80"},
        "c": [True, None],
    }  # fmt: skip


@pytest.fixture
def runs(certified, tmp_path):
    """A folder of three runs: whole, half done, and with one row that says too much."""
    names = ("a/seed9", "a/seed10", "damaged")
    for name in names:
        shutil.copytree(
            certified, tmp_path / name, ignore=shutil.ignore_patterns("together", "each")
        )
    half, damaged = (tmp_path / name / "certify" / "six" / "part-0-of-1.tsv" for name in names[1:])
    half.write_text(
        "".join(half.read_text().splitlines(keepends=True)[:4]) + "3\t0\t0"
    )  # and a torn line
    damaged.write_text(damaged.read_text().replace("\t200\t", "\tmany\t", 1))
    return tmp_path


def test_report_and_status_of_a_folder_of_runs(capsys, runs):
    status, told, said = outcome(capsys, "status", runs, "--json")
    assert (status, said) == (2, f"error: {told['problems'][0]}\n")
    assert "damaged/certify/six is damaged" in said
    assert [Path(run["path"]).name for run in told["runs"]] == ["seed9", "seed10", "damaged"]
    assert [run["state"] for run in told["runs"]] == ["trained"] * 3
    assert [run["finished"] for run in told["runs"]] == [True, False, False]
    assert [run["stores"][0]["state"] for run in told["runs"]] == ["complete", "partial", "damaged"]
    (store,) = told["runs"][1]["stores"]
    assert (store["name"], store["state"], store["done"], store["inputs"]) == (
        "six",
        "partial",
        3,
        6,
    )
    assert store["settings"]["n"] == 200
    assert store["seconds_left"] == pytest.approx(3 * store["seconds_per_input"])
    training = told["runs"][0]["training"]
    assert (training["method"], training["epochs_done"], training["seconds_left"]) == (
        "gaussian",
        8,
        None,
    )

    status, told, said = outcome(capsys, "report", runs, "--json")
    assert status == 2
    assert list(told) == ["error"]
    assert "damaged/certify/six/part-0-of-1.tsv, line 2" in told["error"]
    assert said == f"error: {told['error']}\n"

    shutil.rmtree(runs / "damaged")
    status, told, said = outcome(
        capsys, "report", runs, "--json", "--radius", 0, 0.5, "--csv", runs / "table.csv"
    )
    assert (status, said) == (0, f"wrote {runs / 'table.csv'}\n")
    whole, half = told["rows"]
    assert (whole["name"], whole["inputs"], whole["partial"]) == ("seed9", 6, False)
    assert (half["name"], half["inputs"], half["expected"], half["partial"]) == (
        "seed10",
        3,
        6,
        True,
    )
    stored = read_store(runs / "a" / "seed9" / "certify" / "six")
    assert (
        whole["acr"]
        == average_certified_radius(stored)
        == pytest.approx((stored.radius * stored.correct).mean())
    )
    assert (whole["sigma"], whole["n0"], whole["n"], whole["alpha"]) == (0.5, 100, 200, 0.001)
    assert whole["seed"] == stored.identity["noise_seed"]
    for entry, radius in zip(whole["certified_accuracy"], told["radii"], strict=True):
        assert entry["radius"] == radius
        assert entry["accuracy"] == np.mean(stored.correct & (stored.radius >= radius))
        assert 0 <= entry["lower"] <= entry["accuracy"]
    assert "seed10: partial, 3 of 6 inputs" in told["notes"]


def test_a_status_tells_all_and_names_what_is_damaged(capsys, runs):
    (runs / "damaged" / "certify" / "six" / "manifest.json").unlink()
    status, told, said = outcome(capsys, "status", runs, "--json")
    assert status == 2
    assert [run["stores"][0]["state"] for run in told["runs"]] == ["complete", "partial", "damaged"]
    (problem,) = told["problems"]
    assert problem == told["runs"][2]["stores"][0]["problem"]
    assert "damaged/certify/six is not a result store: it has no manifest.json" in problem
    assert said == f"error: {problem}\n"
    with pytest.raises(SystemExit) as stop:
        main(["status", str(runs)])
    text = capsys.readouterr()
    assert stop.value.code == 2
    assert text.out.count("inputs done") == 2
    assert f"  certify six: DAMAGED: {problem}\n" in text.out
    assert text.err == f"error: {problem}\n"


@pytest.mark.parametrize("command", ["report", "status", "verify"])
@pytest.mark.parametrize("place", ["empty", "nowhere"])
def test_where_there_is_nothing_the_document_is_the_error(capsys, tmp_path, command, place):
    (tmp_path / "empty" / "below").mkdir(parents=True)
    status, told, said = outcome(capsys, command, tmp_path / place, "--json")
    assert status == 2
    assert list(told) == ["error"]
    assert str(tmp_path / place) in told["error"]
    assert said == f"error: {told['error']}\n"


def named_in_the_docs():
    """The keys of each document and of its parts, by what stands in the first column of the page's table."""
    table = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][
        1:
    ]
    return {first.replace("`", ""): set(re.findall(r"`(\w+)`", keys)) for first, keys in rows}


def test_the_docs_name_every_key(capsys, runs, tmp_path):
    shutil.rmtree(runs / "damaged")
    np.save(tmp_path / "black.npy", np.zeros((1, 28, 28), np.uint8))
    run = runs / "a" / "seed9"
    write_attacks(run / "attack" / "pgd", {(0, 0.5): 1})
    asked = ["--tables", "accuracy", "differences", "envelope", "--intervals", "--radius", 0, 0.5]
    asked += ["--figure", tmp_path / "f.svg", "--draw", "trade-offs"]
    predicted, status, joint, merged, reported, verified = (
        outcome(capsys, *words, "--json")[1]
        for words in (
            ["predict", run, tmp_path / "black.npy", "--n", 100],
            ["status", run],
            ["status", runs],
            ["merge", runs, "--out", tmp_path / "joint"],
            ["report", run, runs / "a" / "seed10", *asked],
            ["verify", run],
        )
    )
    told = {
        "predict": predicted, "each of images": predicted["images"][0],
        "status": status, "each of runs": status["runs"][0], "training": status["runs"][0]["training"],
        "each of stores": status["runs"][0]["stores"][0],
        "each of together": joint["together"][0], "merge": merged,
        "report": reported, "each of rows": reported["rows"][0],
        "each of certified_accuracy": reported["rows"][0]["certified_accuracy"][0],
        "each of confidence": reported["rows"][0]["confidence"][0],
        "differences": reported["differences"], "each of compared": reported["differences"]["compared"][0],
        "each of accuracies": reported["differences"]["compared"][0]["accuracies"][0],
        "each of envelopes": reported["envelopes"][0], "each of best": reported["envelopes"][0]["best"][0],
        "each of stretches": reported["envelopes"][0]["stretches"][0],
        "trade_offs": reported["trade_offs"], "each of series": reported["trade_offs"]["series"][0],
        "each of spots": reported["trade_offs"]["series"][0]["spots"][0],
        "each of at_radii": reported["trade_offs"]["series"][0]["spots"][0]["at_radii"][0],
        "each of attacks": reported["attacks"][0], "each of attacked": reported["attacks"][0]["attacked"][0],
        "verify": {"stores": 0, **verified["stores"][0]},
    }  # fmt: skip
    named = named_in_the_docs()
    assert {part: set(keys) for part, keys in told.items()} == {part: named[part] for part in told}
    assert reported["differences"]["compared"][0]["inputs"] == 3  # what the unfinished run has
    # test_report_values, test_doctor and test_ledger have these
    elsewhere = {"published", "each of corruptions", "doctor"}
    elsewhere |= {"list tables --ledger", "each of these rows"}
    assert named.keys() - told.keys() == elsewhere


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], set()),
        (["--tables", "accuracy"], set()),
        (["--tables", "envelope"], {"envelopes"}),
        (["--figure", "f.svg", "--draw", "envelope"], {"envelopes"}),
        (["--figure", "f.svg", "--draw", "trade-offs"], {"trade_offs"}),
    ],
)
def test_envelopes_and_trade_offs_are_told_where_they_are_asked_for(
    capsys, runs, monkeypatch, words, told
):
    monkeypatch.chdir(runs)
    _, found, _ = outcome(capsys, "report", "a/seed9", "a/seed10", *words, "--json")
    assert {
        name for name in ("differences", "envelopes", "trade_offs") if found[name] is not None
    } == told


def test_a_run_left_out_of_a_report_is_named(capsys, runs):
    shutil.rmtree(runs / "damaged")
    shutil.rmtree(runs / "a" / "seed10" / "certify")
    status, told, said = outcome(capsys, "report", runs, "--json")
    assert status == 0
    assert len(told["rows"]) == 1
    (left_out,) = told["left_out"]
    assert "seed10: a run without certificates" in left_out
    assert said == f"note: {left_out}\n"
