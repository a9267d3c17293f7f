"""Stores of several machines joined: the rows of all, or an error in words and nothing written."""

import itertools
import json
import shutil

import numpy as np
import pytest

from smoothcert.certification.certifier import certificate_row
from smoothcert.errors import StoreError
from smoothcert.runs.chain import broken_rows
from smoothcert.runs.checks import checks_in_words, note_checks
from smoothcert.runs.merge import merge
from smoothcert.runs.rows import CHECK, COLUMNS
from smoothcert.runs.store import Manifest, ResultStore, clock
from smoothcert.statistics.certificate import from_counts
from tests.processes import Child

IDENTITY = {"sigma": 0.5, "n0": 100, "n": 1000, "alpha": 0.001, "noise": "exact", "start": 0, "every": 1, "max": 20}
INPUTS = 20


def row(index, top=990, seconds=1.0):
    counts0, counts = np.array([90, 10, 0]), np.array([top, 0, 1000 - top])
    (certificate,) = from_counts(counts0[None], counts[None], sigma=0.5, alpha=0.001)
    row = certificate_row(certificate, index=index, label=0, noise="exact", seed=0)
    return {**row, "time": clock(seconds)}


def make(folder, indices=(), shard=0, shards=1, inputs=INPUTS, host="a", top=990, **changes):
    store = ResultStore(folder)
    store.claim(Manifest({**IDENTITY, "max": inputs, **changes}, inputs, {"host": host}))
    if indices:
        with store.writer(shard, shards) as part:
            for index in indices:
                part.add(row(index, top, seconds=1.0 + shard))
    return folder


def said(folder):
    """What the store at a folder says: its rows by input, without the times and checks, each once."""
    rows = [
        {name: cell for name, cell in row.items() if name not in ("time", CHECK)} for row in ResultStore(folder).rows()
    ]
    return {int(row["idx"]): row for row in rows}


def content(folder):
    """Every file of a folder that is not hidden."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}


def unbroken(folder):
    store = ResultStore(folder)
    return not any(list(broken_rows(part, store.manifest().identity)) for part in store.parts())


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
    with pytest.raises(StoreError, match=r"several stores \(other, test\): choose by --name"):
        merge([tmp_path / "a"], tmp_path / "out")
    merge([tmp_path], tmp_path / "out", "test")
    assert set(said(tmp_path / "out")) == {0, 1}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def drop(path, line):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:line] + lines[line + 1 :]))


def cut_checks(path):
    """As older versions wrote it."""
    rows = [line.split("\t")[:-1] for line in path.read_text().splitlines()]
    path.write_text("".join("\t".join(cells) + "\n" for cells in rows))


def put_elsewhere(path):
    path.rename(path.parent.parent / "elsewhere.tsv")
    path.symlink_to(path.parent.parent / "elsewhere.tsv")


# each spoils a store `a` with six rows in its PART, a store `b` without any, or both
PART = "part-0-of-2.tsv"
REFUSED = {
    "another procedure": (lambda a, b: remake(b, n=10), r"n: 1000 in .*/a, 10 in .*/b"),
    "other inputs": (lambda a, b: remake(b, every=2), r"every: 1 in .*/a, 2 in .*/b"),
    "another device": (lambda a, b: remake(b, device_type="cuda"), r"device_type: None in .*/a, 'cuda' in .*/b"),
    "attacks": (lambda a, b: remake(b, attack="pgd"), "/b holds attacks"),
    "an edited row": (lambda a, b: edit(a / PART, "0:990", "0:991"), f"{PART}, line 2: the chain of checks is broken"),
    "a lost row": (lambda a, b: drop(a / PART, 2), f"{PART}, line 3: the chain of checks is broken"),
    "a renamed part": (lambda a, b: (a / PART).rename(a / "part-1-of-2.tsv"), "part-1-of-2.tsv, line 2: the chain"),
    "an edited manifest": (lambda a, b: edit(a / "manifest.json", "0.001", "0.01"), f"{PART}, line 2: the chain"),
    "checks cut off": (
        lambda a, b: (cut_checks(a / PART), edit(a / "manifest.json", '"start"', '"noise_seed": 0, "start"')),
        f"{PART}: the column check was cut off",
    ),
    "other answers": (
        lambda a, b: make(b, [2, 4], top=980),
        r"about 2 inputs: input 2 in .*/a and in .*/b \(radius .*\), input 4 in .* Nothing was written",
    ),
    "two answers in one store": (lambda a, b: make(a, [2], 1, 2, top=980), "/a: input 2 is there twice"),
    "an input of another set": (lambda a, b: make(a, [77], 0, 2), f"{PART}: the manifest beside it has no input 77"),
    "no manifest": (lambda a, b: (a / "manifest.json").unlink(), "/a: expected a store, .*; found none"),
    "a damaged manifest": (lambda a, b: (a / "manifest.json").write_text("{"), "manifest.json is damaged"),
    "odd reasons": (
        lambda a, b: edit(a / "manifest.json", '"host": "a"', '"skipped": [3]'),
        r"expected skipped as a list of texts, found \[3\]",
    ),
    "no such inputs": (lambda a, b: edit(a / "manifest.json", '"inputs": 20', '"inputs": -2'), "no certification has"),
    "binary rows": (lambda a, b: (a / PART).write_bytes(b"\xff\xfe\n"), "found binary data"),
    "another log": (lambda a, b: (b / "part-0-of-1.tsv").write_text("no\trows\n"), "expected a tab-separated header"),
    "no labels": (lambda a, b: add(b, 7, label=-1, correct=0), "some stores have labels and others none"),
    "no time": (lambda a, b: add(b, 7, time="long"), "column time: expected hours:minutes:seconds, found 'long'"),
    "an endless time": (lambda a, b: add(b, 7, time="0:00:inf"), "column time: expected"),
    "a time beyond numbers": (lambda a, b: add(b, 7, time=f"{'9' * 400}:00:00"), "column time: expected"),
    "probes of other lengths": (
        lambda a, b: (remake(a, behaviour=[[0, 1.0, 2.0]]), remake(b, behaviour=[[0, 1.0]])),
        "behaviour: the network answers probe images differently",
    ),
    "nothing": (lambda a, b: shutil.rmtree(a), "/a: no such folder"),
    "an empty folder": (lambda a, b: (shutil.rmtree(a), a.mkdir()), "/a: expected a store, .*; found none"),
}


def add(folder, index, **cells):
    """One row more, with other cells and a chain that is whole."""
    with ResultStore(folder).writer(1, 2) as part:
        part.add({**row(index), **cells})


def remake(folder, **changes):
    shutil.rmtree(folder)
    return make(folder, **changes)


@pytest.fixture
def pair(tmp_path):
    return make(tmp_path / "a", range(6), 0, 2), make(tmp_path / "b")


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_belong_together_is_refused_and_nothing_is_written(pair, tmp_path, case):
    spoil, message = REFUSED[case]
    spoil(*pair)
    with pytest.raises(StoreError, match=message):
        merge(pair, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_inputs_that_share_one_alpha_keep_their_number(tmp_path):
    a, b = (make(tmp_path / str(n), [0], inputs=n, simultaneous=True) for n in (20, 21))
    with pytest.raises(StoreError, match=r"alpha shared among 20 inputs in .*, 21 in"):
        merge([a, b], tmp_path / "out")
    assert merge([a, a], tmp_path / "out").sources == 1


TAKEN = {
    "a store without parts": (lambda a, b: None, 6),
    "a part without rows": (lambda a, b: (b / PART).write_text("\t".join(COLUMNS) + "\n"), 6),
    "a torn header": (lambda a, b: (b / PART).write_text("idx\tla"), 6),
    "a row that is being written": (lambda a, b: append(a / PART, "7\t0\t0"), 6),
    "the same store under another name": (lambda a, b: (shutil.rmtree(b), b.symlink_to(a)), 6),
    "a copy of it": (lambda a, b: (shutil.rmtree(b), shutil.copytree(a, b)), 6),
    "an equal row that took longer": (lambda a, b: make(b, (5, 6), 1, 2), 7),
    "the same row twice in one store": (lambda a, b: (make(b, (5, 6), 1, 2), make(b, (6, 7), 0, 2)), 8),
    "no chain, of an older version": (lambda a, b: cut_checks(a / PART), 6),
    "a part that is a link": (lambda a, b: put_elsewhere(a / PART), 6),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_is_odd_but_whole_is_taken(pair, tmp_path, case):
    spoil, rows = TAKEN[case]
    spoil(*pair)
    merged = merge(pair, tmp_path / "out")
    assert (merged.added, merged.missing) == (rows, list(range(rows, INPUTS)))
    assert said(tmp_path / "out") == said(make(tmp_path / "whole", range(rows)))
    assert unbroken(tmp_path / "out")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("a/inside", "lies inside the store"),
        ("full", "is no certificate store, and not empty"),
        ("other", "n: 10 in .*/other, 1000 in .*/a"),
        ("broken", "the chain of checks is broken"),
        ("says", "disagree about 1 inputs: input 0 in .*/says and in .*/a"),
    ],
)
def test_a_place_that_cannot_be_the_joint_store(tmp_path, out, message):
    a = make(tmp_path / "a", [0])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    make(tmp_path / "other", n=10)
    edit(make(tmp_path / "broken", [0]) / "part-0-of-1.tsv", "0:990", "0:991")
    make(tmp_path / "says", [0], top=980)
    before = content(tmp_path)
    with pytest.raises(StoreError, match=message):
        merge([a], tmp_path / out)
    assert content(tmp_path) == before


@pytest.mark.parametrize("line", ['{"rechecked": Infinity, "differ": 0}', "[" * 100_000, "3", '{"differ": 0}', "{"])
def test_checks_that_cannot_be_read_are_passed_over(tmp_path, line):
    a = make(tmp_path / "a", [0])
    (a / "checks.jsonl").write_text(f"{line}\n")
    assert checks_in_words(a) is None
    note_checks(a, "0/1", 10, 0)
    merge([a], tmp_path / "out")
    assert checks_in_words(tmp_path / "out") == "10 answers evaluated again, 0 differed"


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

    add = store.PartWriter.add

    def told(self, row):
        report(row["idx"])
        add(self, row)

    store.PartWriter.add = told
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
    assert values["identity"] == IDENTITY
