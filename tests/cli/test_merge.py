"""`smoothcert merge`, and `smoothcert status` over stores that are not merged yet."""

import json
import shutil

import pytest

from smoothcert.cli.merge import _ranges
from smoothcert.runs.store import ResultStore
from tests.cli.commands import fails, run

SIX = ("--name", "six", "--max", 6, "--n", 200)


@pytest.fixture
def machines(certified, tmp_path):
    """The run on three machines without a common disk: the first two have certified their thirds, the last one not."""
    return [
        shutil.copytree(certified, tmp_path / name, ignore=shutil.ignore_patterns("certify"))
        for name in "abc"
    ]


def test_shards_of_machines_without_a_common_disk_become_one_store(
    capsys, certified, machines, tmp_path
):
    for number, place in enumerate(machines[:2]):
        run(capsys, "certify", place, *SIX, "--shard", f"{number}/3")
    told = run(capsys, "status", *machines)
    assert "together, 2 stores of one procedure have 4 of 6 inputs, 2 missing\n" in told
    (joint,) = json.loads(run(capsys, "status", *machines, "--json"))["together"]
    assert (joint["done"], joint["inputs"], len(joint["places"])) == (4, 6, 2)

    out = machines[2] / "certify" / "six"
    told = run(capsys, "merge", *machines[:2], "--out", out)
    assert f"{out}: 4 rows added from 2 stores\n4 of 6 inputs, 2 missing: 2, 5\n" in told
    assert f"with {machines[2]} and --name six" in told
    run(capsys, "certify", machines[2], *SIX, "--shard", "2/3")  # it goes on with the joint store
    told = run(capsys, "merge", *machines, "--out", tmp_path / "whole")
    assert told == f"{tmp_path / 'whole'}: 6 rows added from 3 stores\nall 6 inputs\n"
    assert "together" not in run(
        capsys, "status", certified, tmp_path / "whole"
    )  # each is complete

    told = run(
        capsys,
        "merge",
        tmp_path,
        certified / "certify" / "six",
        "--out",
        tmp_path / "whole",
        "--json",
    )
    told = json.loads(told)
    assert (told["sources"], told["added"], told["done"], told["missing"]) == (4, 0, 6, [])
    assert "verified: 6 rows recomputed" in run(capsys, "verify", tmp_path / "whole")


@pytest.mark.parametrize(
    ("every", "missing", "text"),
    [
        (1, [0], "0"),
        (1, [12, 57, 93, 94, 95, 99], "12, 57, 93-95, 99"),
        (20, [0, 40, 60, 80, 120], "0, 40-80, 120 (each 20th)"),
        (
            1,
            list(range(0, 60, 2)),
            f"{', '.join(map(str, range(0, 40, 2)))} and 10 more (--json lists them)",
        ),
    ],
)
def test_missing_inputs_in_words(every, missing, text):
    assert _ranges(missing, every) == text


def test_a_source_that_nobody_would_read_is_not_merged(capsys, machines, tmp_path):
    """A radius that its counts do not prove, in a part whose chain is whole: report would refuse the joint store."""
    good, bad, empty = (place / "certify" / "six" for place in machines)
    for number, place in enumerate(machines[:2]):
        run(capsys, "certify", place, *SIX, "--shard", f"{number}/3")
    empty.mkdir(parents=True)
    shutil.copy(good / "manifest.json", empty)
    run(capsys, "merge", good, empty, "--out", tmp_path / "whole")

    store = ResultStore(bad)
    rows = list(store.rows())
    next(bad.glob("part-*.tsv")).unlink()
    with store.writer(1, 3) as part:
        for row in rows:
            part.add({**row, "radius": "9.5"})
    before = ResultStore(tmp_path / "whole").fingerprint()
    assert "column radius: found '9.5'" in fails(capsys, "merge", bad, "--out", tmp_path / "whole")
    assert ResultStore(tmp_path / "whole").fingerprint() == before


def test_the_run_is_named_as_it_was_given(capsys, machines, monkeypatch):
    run(capsys, "certify", machines[0], *SIX, "--shard", "0/3")
    monkeypatch.chdir(machines[1].parent)
    told = run(capsys, "merge", "a", "--out", "b/certify/six")
    assert told.startswith("b/certify/six: 2 rows added from 1 store\n")
    assert told.endswith("with b and --name six\n")
    monkeypatch.chdir(machines[1] / "certify")
    assert f"with {machines[1].resolve()} and --name six" in run(
        capsys, "merge", machines[0], "--out", "six"
    )


def test_what_is_refused_is_one_line(capsys, certified, tmp_path):
    assert "no such folder" in fails(capsys, "merge", tmp_path / "none", "--out", tmp_path / "out")
    refused = fails(capsys, "merge", certified, "--name", "seven", "--out", tmp_path / "out")
    assert "expected a store called seven" in refused
    assert not (tmp_path / "out").exists()
