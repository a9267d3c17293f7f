"""Which stores are joined and which are not: an error says why, and nothing is written."""

import shutil

import pytest

from smoothcert.errors import StoreError
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.merge import merge
from smoothcert.runs.rows import COLUMNS
from tests.runs.machines import (
    IDENTITY,
    INPUTS,
    add,
    append,
    content,
    cut_checks,
    edit,
    make,
    put_elsewhere,
    remake,
    said,
    unbroken,
)

# each spoils a store `a` with six rows in its PART, a store `b` without any, or both
PART = "part-0-of-2.tsv"
REFUSED = {
    "another procedure": (lambda a, b: remake(b, n=10), r"n: 1000 in .*/a, 10 in .*/b"),
    "other inputs": (lambda a, b: remake(b, every=2), r"every: 1 in .*/a, 2 in .*/b"),
    "another device": (
        lambda a, b: remake(b, device_type="cuda"),
        r"device_type: 'cpu' in .*/a, 'cuda' in .*/b",
    ),
    "attacks": (lambda a, b: attacks(b), "holds attacks"),
    "an edited row": (
        lambda a, b: edit(a / PART, "0:990", "0:991"),
        f"{PART}, line 2, input 0: column check: found",
    ),
    "an edited manifest": (
        lambda a, b: edit(a / "manifest.json", '"alpha": 0.001', '"alpha": 0.002'),
        f"{PART}, line 2, input 0: column check: found",
    ),
    "checks cut off": (lambda a, b: cut_checks(a / PART), "missing: check"),
    "other answers": (
        lambda a, b: make(b, [2, 4], top=970),
        r"\(2 problems\): .*/b/part-0-of-1.tsv, line 2, input 2: another result than .*/a/.* Nothing was written",
    ),
    "two answers in one store": (
        lambda a, b: make(a, [2], 1, 2, top=970),
        "/a is damaged.* input 2: another result than part-0-of-2.tsv, line 4",
    ),
    "an input of another set": (
        lambda a, b: make(a, [77], 0, 2),
        f"{PART}, line 8, input 77: column idx: found '77', expected one of the 20 inputs",
    ),
    "no manifest": (
        lambda a, b: (a / "manifest.json").unlink(),
        "/a: expected a store, .*; found none",
    ),
    "a damaged manifest": (
        lambda a, b: (a / "manifest.json").write_text("{"),
        "manifest.json is damaged",
    ),
    "odd reasons": (
        lambda a, b: edit(a / "manifest.json", '"host": "a"', '"skipped": [3]'),
        r"is damaged \(Expected `str`, got `int` - at `\$\.environment",
    ),
    "no such inputs": (
        lambda a, b: edit(a / "manifest.json", '"inputs": 20', '"inputs": -2'),
        "is damaged .Expected `int` >= 1 - at `..inputs`",
    ),
    "binary rows": (lambda a, b: (a / PART).write_bytes(b"\xff\xfe\n"), "found binary data"),
    "another log": (
        lambda a, b: (b / "part-0-of-1.tsv").write_text("no\trows\n"),
        "expected a tab-separated header",
    ),
    "no labels": (
        lambda a, b: add(b, 7, label=-1, correct=0),
        "some parts have labels and others none",
    ),
    "no time": (
        lambda a, b: add(b, 7, time="long"),
        "column time: found 'long', expected hours:minutes:seconds",
    ),
    "an endless time": (lambda a, b: add(b, 7, time="0:00:inf"), "column time: found"),
    "a time beyond numbers": (
        lambda a, b: add(b, 7, time=f"{'9' * 400}:00:00"),
        "column time: found",
    ),
    "probes of other lengths": (
        lambda a, b: (remake(a, behaviour=[[0, 1.0, 2.0]]), remake(b, behaviour=[[0, 1.0]])),
        "behaviour: the network answers probe images differently",
    ),
    "nothing": (lambda a, b: shutil.rmtree(a), "/a: no such folder"),
    "an empty folder": (
        lambda a, b: (shutil.rmtree(a), a.mkdir()),
        "/a: expected a store, .*; found none",
    ),
}


def attacks(store):
    """A store of attacks in the place of another."""
    keep = {k: v for k, v in IDENTITY.items() if k not in _CERTIFIED}
    asked = {"attack": "pgd", "radii": [0.5], "noises": 1, "steps": 1, "beta": 1.0}
    identity = {**keep, **asked, "as_printed": False, "attack_version": 3}
    (store / "manifest.json").write_bytes(Manifest(identity, 3, {}).written())


_CERTIFIED = ("n0", "simultaneous", "skip_wrong", "dimension", "noise_seed")


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
    a, b = (make(tmp_path / str(n), inputs=n, simultaneous=True) for n in (20, 21))
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
    "the same row twice in one store": (
        lambda a, b: (make(b, (5, 6), 1, 2), make(b, (6, 7), 0, 2)),
        8,
    ),
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
        ("broken", "column check: found"),
        ("says", "/a/part-0-of-1.tsv, line 2, input 0: another result than part-0-of-1.tsv"),
    ],
)
def test_a_place_that_cannot_be_the_joint_store(tmp_path, out, message):
    a = make(tmp_path / "a", [0])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    make(tmp_path / "other", n=10)
    edit(make(tmp_path / "broken", [0]) / "part-0-of-1.tsv", "0:990", "0:991")
    make(tmp_path / "says", [0], top=970)
    before = content(tmp_path)
    with pytest.raises(StoreError, match=message):
        merge([a], tmp_path / out)
    assert content(tmp_path) == before
