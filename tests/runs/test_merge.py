"""Stores of several machines joined: the rows of all, in whatever order, again, and after a kill."""

import itertools
import json
import shutil

import pytest

from smoothcert.errors import StoreError
from smoothcert.runs.checks import checks_in_words, note_checks
from smoothcert.runs.merge import merge
from smoothcert.runs.store import ResultStore
from tests.processes import Child
from tests.runs.machines import IDENTITY, INPUTS, append, content, make, said, unbroken


@pytest.fixture
def shards(tmp_path):
    """Three machines: two with their shares of the same inputs, one that took whatever it found."""
    make(tmp_path / "a", range(0, 18, 2), 0, 2)
    make(tmp_path / "b", range(1, 18, 2), 1, 2, host="b")
    make(tmp_path / "c", (0, 1, 18), 0, 2, host="c")
    return [tmp_path / name for name in "abc"]


def test_the_order_of_sources_does_not_matter(shards, tmp_path):
    results = []
    for number, order in enumerate(itertools.permutations(shards)):
        merged = merge(order, tmp_path / f"out{number}")
        assert (merged.sources, merged.added, merged.missing) == (3, 19, [19])
        results.append(content(tmp_path / f"out{number}"))
    assert all(result == results[0] for result in results)
    whole = make(tmp_path / "whole", range(19))
    assert said(tmp_path / "out0") == said(whole)
    assert unbroken(tmp_path / "out0")


def test_merging_again_changes_nothing_and_what_came_meanwhile_is_added(shards, tmp_path):
    out = tmp_path / "out"
    merge(shards[:2], out)
    before = content(out)
    merge([*shards[:2], out], out)
    assert content(out) == before
    make(shards[0], [19], 0, 2)
    merged = merge([tmp_path], out)  # the folder in which all of them lie, the joint one too
    assert (merged.sources, merged.added, merged.missing) == (3, 2, [])
    assert said(out) == said(make(tmp_path / "whole", range(INPUTS)))
    assert unbroken(out)


def test_a_store_of_the_sources_can_be_the_joint_one(shards):
    merged = merge(shards, shards[0])
    assert (merged.sources, merged.added, merged.missing) == (2, 10, [19])
    assert unbroken(shards[0])


def test_machines_that_round_differently_have_one_chain(tmp_path):
    for name, spread in (("a", 3.0), ("b", 3.0000001)):
        make(tmp_path / name, [ord(name) - 97], behaviour=[[1, 2.0, spread]], noise_seed=0)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert set(said(tmp_path / "out")) == {0, 1}
    assert unbroken(tmp_path / "out")


def test_the_largest_max_counts(tmp_path):
    make(tmp_path / "a", range(5), inputs=5)
    make(tmp_path / "b", range(5, 8), inputs=9)
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert (merged.inputs, merged.missing) == (range(9), [8])
    assert ResultStore(tmp_path / "out").manifest().identity["max"] == 9
    merged = merge([make(tmp_path / "c", [11], inputs=12)], tmp_path / "out")
    assert merged.missing == [8, 9, 10]


@pytest.mark.parametrize("place", ["", "run", "run/certify/test"])
def test_sources_are_stores_runs_and_folders_of_them(tmp_path, place):
    make(tmp_path / "in" / "run" / "certify" / "test", [3])
    merge([str(tmp_path / "in" / place)], tmp_path / "out")
    assert set(said(tmp_path / "out")) == {3}


def test_of_runs_with_several_stores_one_is_chosen(tmp_path):
    for name in ("a", "b"):
        make(tmp_path / name / "certify" / "test", [ord(name) - 97])
        make(tmp_path / name / "certify" / "other", [7], n=9)
    with pytest.raises(StoreError, match=r"several stores \(other, test\): choose one by its name"):
        merge([tmp_path / "a"], tmp_path / "out")
    merge([tmp_path], tmp_path / "out", "test")
    assert set(said(tmp_path / "out")) == {0, 1}


@pytest.mark.parametrize(
    "line",
    [
        '{"rechecked": Infinity, "differ": 0}',
        "[" * 100_000,
        "3",
        '{"differ": 0}',
        "{",
        '{"rechecked": 1, "differ": 2}',
    ],
)
def test_checks_that_cannot_be_read_are_named(tmp_path, line):
    a = make(tmp_path / "a", [0])
    note_checks(a, "0/1", 10, 0)
    append(a / "checks.jsonl", f"{line}\n")
    with pytest.raises(StoreError, match=r"checks\.jsonl, line 2: expected how many answers"):
        merge([a], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_checks_are_added_once(tmp_path):
    a, b = make(tmp_path / "a", [0], host="a"), make(tmp_path / "b", [1], host="b")
    note_checks(a, "0/2", 10, 0)
    note_checks(b, "0/2", 10, 0)
    for _ in range(2):
        merge([a, b], tmp_path / "out")
        assert checks_in_words(tmp_path / "out") == "20 answers evaluated again, 0 differed"
    note_checks(b, "0/2", 5, 1)
    note_checks(tmp_path / "out", "auto", 100, 0)
    merge([b, shutil.copytree(b, tmp_path / "copy")], tmp_path / "out")
    assert checks_in_words(tmp_path / "out") == "125 answers evaluated again, 1 differed"
    merge([tmp_path / "out", a], tmp_path / "second")
    assert checks_in_words(tmp_path / "second") == "125 answers evaluated again, 1 differed"
    append(b / "checks.jsonl", '{"shard": "0/2", "rech')
    merge([b], tmp_path / "out")
    assert checks_in_words(tmp_path / "out") == "125 answers evaluated again, 1 differed"


def merge_and_tell(report, sources, out):
    """Merge, and tell before each row that is written, and after the manifest is."""
    from smoothcert.runs import store

    copy = store.PartWriter.copy

    def told(self, line):
        report(line)
        copy(self, line)

    store.PartWriter.copy = told
    merge(sources, out)


@pytest.mark.parametrize("rows", [1, 4, 19])
def test_a_merge_that_was_killed_ends_with_the_same_store(shards, tmp_path, rows):
    merge(shards, tmp_path / "whole")
    child = Child(merge_and_tell, shards, tmp_path / "out")
    for _ in range(rows):
        child.next_report()
    child.kill()
    merge(shards, tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_manifest_names_that_several_machines_made_the_rows(shards, tmp_path):
    merge(shards, tmp_path / "out")
    values = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert values["environment"]["merged"] is True
    assert values["identity"] == {**IDENTITY, "max": INPUTS}
