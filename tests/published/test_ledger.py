"""The ledger of lines that are made up: what it says of rows, and why it says nothing of others."""

import dataclasses
import json

import pytest

from smoothcert.cli import main
from smoothcert.config import TrainConfig
from smoothcert.published.catalogue import load_table, table_names
from smoothcert.published.compared import compared_recipes, compared_table
from smoothcert.published.ledger import as_json, entries, entry_of, page, totals
from smoothcert.published.measured import Made, Measured, add_measured
from smoothcert.published.speeds import Speeds
from smoothcert.recipes import load_recipe
from smoothcert.statistics.value import Value

TABLE = load_table("smoothmix-supplement/table-5")  # ACRs over five seeds, 10,000 images


def run(row, seed=0, shift=0.0, *, as_printed=False, noise="exact", **training):
    """A run that gives what the row prints, or more."""
    asked = {"seed": seed, **row.change, **training}
    config = dataclasses.asdict(load_recipe(row.recipe, asked, as_printed).config)
    settings = {"n0": 100, "n": 100_000, "alpha": 0.001, "noise": noise, "sigma": config["sigma"]}
    settings |= {"dataset": config["dataset"], "split": "test", "start": 0, "every": 1}
    settings |= {"images": row.images, "norm": "l2", "procedure": "fixed"}
    made = Made(
        recipe=row.recipe,
        changes={},
        as_printed=as_printed,
        seed=seed,
        commands=(),
        commits={},
        device="a machine",
        torch="2",
        seconds={"train": 90.0 * 36, "certify": 10_000 * 0.36},
        checked="counts",
    )
    values = tuple(
        Value(row.recipe, value.measure, value.value + shift, value.r, images=row.images)
        for value in row.printed
    )
    return Measured(config, settings, values, {}, made)


def entry(row, runs, as_printed=False):
    return entry_of(row, runs, as_printed, Speeds(runs))


def test_rows_are_judged_by_the_runs_with_their_settings():
    row, other = TABLE.rows[0], TABLE.rows[1]
    same = [run(row, seed) for seed in range(3)]
    found = entry(row, [*same, run(other, 0, 0.5)])
    assert (found.word, found.seeds, found.images, found.checked) == (
        "reproduced",
        3,
        10_000,
        "counts",
    )
    assert found.reason == ""
    assert entry(row, [run(row, seed, 0.05) for seed in range(3)]).word == "different"
    few = entry(row, [run(row, 0, 0.05, epochs=3)])
    assert (few.word, few.runs, few.reason) == ("not judged", (), "epochs = 3 here, 90 there")


def test_runs_as_printed_are_judged_by_themselves():
    row = TABLE.rows[0]
    runs = [run(row, 0), run(row, 0, 0.05, as_printed=True)]
    code, text = (entry(row, runs, as_printed) for as_printed in (False, True))
    assert (code.word, len(code.runs)) == ("reproduced", 1)
    assert (text.word, len(text.runs)) == ("different", 1)
    lines = page(entries(runs, Speeds(runs)), runs)
    assert f"| `{TABLE.name}` as printed | 1 |" in lines
    shown = compared_table(TABLE, runs)
    assert "ours, 1 seed: difference | +0.0000 ±" in shown
    assert "ours, 1 seed as printed: difference | **+0.0500 ±" in shown
    names = [line.split(" | ")[0] for line in compared_recipes(runs).splitlines()[2:]]
    assert names == [f"| `{row.recipe}`", f"| `{row.recipe}` as printed"]


def test_older_noise_is_said_and_stays_visible():
    row = TABLE.rows[0]
    found = entry(row, [run(row, noise="quantised")])
    assert found.marked
    assert not found.as_json()["exact_noise"]
    lines = compared_recipes([run(row, noise="quantised")])
    assert f"| `{row.recipe}` † | 1 |" in lines


def test_the_best_of_many_is_judged_when_all_of_them_were_run():
    (row,) = (r for r in load_table("smoothadv/table-2").rows if r.label == "Cohen et al.")
    runs = [run(dataclasses.replace(m, images=10_000)) for m in row.best_of]
    assert entry(row, runs[:-1]).reason.startswith("3 of 4 models were run; ")
    assert "models were run" not in entry(row, runs).reason


@pytest.mark.parametrize(
    ("table", "label", "reason"),
    [
        ("smoothadv/table-6", None, "data not redistributable: imagenet"),
        ("catrs-supplement/table-13", None, "data not redistributable: cifar10-c"),
        ("smoothadv-logs/cifar10-selftrained", None, "data not redistributable: pseudo-labelled"),
        ("smoothadv/table-3", "Wong et al.", "quoted from elsewhere"),
        ("smoothmix-workshop/figure-3", None, "no values are printed"),
        ("smoothmix-supplement/table-8", None, "not run"),
        ("catrs-supplement/table-8", None, "hours not known"),
    ],
)
def test_rows_that_nobody_has_run_have_one_reason(table, label, reason):
    rows = load_table(table).rows
    row = next((r for r in rows if label and r.label.startswith(label[:4])), rows[0])
    timed = (
        [run(TABLE.rows[1])]
        if table != "smoothmix-supplement/table-8"
        else [run(TABLE.rows[-1], 1)]
    )
    found = entry_of(row, [], False, Speeds(timed))
    assert found.reason.startswith(reason)
    assert found.word == "not judged"
    assert bool(found.hours) == (reason == "not run")


def test_the_totals_are_those_of_the_rows(tmp_path, capsys):
    runs = [run(row, seed) for row in TABLE.rows[:3] for seed in range(2)]
    found = entries(runs, Speeds(runs))
    document = as_json(found)
    for word in ("reproduced", "different", "not_judged"):
        own = [each for each in document["rows"] if not each["as_printed"]]
        named = word.replace("_", " ")
        assert totals(found)["values"][named] == sum(each[word] for each in own)
        with_values = [each for each in own if each["values"]]
        assert totals(found)["rows"][named] == sum(each["verdict"] == named for each in with_values)
    assert {each["table"] for each in document["rows"]} == {
        name for name in table_names() if load_table(name).rows
    }
    lines = page(found, runs).splitlines()
    assert [line.split("`")[1] for line in lines if line.startswith("| `")] == table_names()
    path = tmp_path / "lines.jsonl"
    add_measured(path, runs)
    main(["list", "tables", "--ledger", "--json", "--results", str(path)])
    printed = json.loads(capsys.readouterr().out)
    assert printed["totals"] == document["totals"]
    main(["list", "tables", TABLE.name, "--results", str(path)])
    assert "ours, 2 seeds: difference" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json"], "--json is of the ledger"),
        (["--ledger", "smoothadv"], "--ledger is of all tables: leave smoothadv out"),
        (["--ledger"], "there are no results/*.jsonl in this folder"),
        (["--ledger", "--results", "none.jsonl"], "none.jsonl: cannot be read"),
    ],
)
def test_what_no_ledger_can_be_made_of_is_said(capsys, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["list", "tables", *words])
    assert said in capsys.readouterr().err


def test_settings_of_a_training_are_whole():
    """Else a line could not be read again."""
    assert TrainConfig(**run(TABLE.rows[0]).config)
