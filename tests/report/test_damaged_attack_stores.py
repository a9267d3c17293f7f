"""Stores of attacks that are damaged, or made by hand: they are refused with file, line and column."""

import json

import pytest

from smoothcert.errors import StoreError
from smoothcert.report import read_attacks
from tests.refusals import cases
from tests.report.attack_stores import OLDER_COLUMNS, RIGHT, attack_row, write_attacks


@pytest.mark.parametrize(
    ("column", "value", "words"),
    cases("""
        idx               | -1   | index from 0 on
        idx               | 1e3  | whole number
        label             | 10   | one of 10 classes
        label             | -1   | one of 10 classes
        radius            | 0.3  | one of the radii of the manifest
        radius            | nan  | one of the radii of the manifest
        distance          | 0.51 | a distance from 0 to the radius
        distance          | nan  | a distance from 0 to the radius
        distance          |      | a number
        predict           | -2   | -1 for an abstention
        predict           | 10   | -1 for an abstention
        correct           | 0    | 1 exactly where predict equals label
        correct           | 7    | 1 exactly where predict equals label
        certified_predict | 3    | finite radius
        certified_radius  | 0.5  | nothing in both columns
        certified_radius  | inf  | nothing in both columns
        base_predict      | -1   | a class
        votes             | 1001 | from 0 to n = 1000
        votes             | many | whole number
    """),
)
def test_a_bad_value_names_file_line_and_column(tmp_path, column, value, words):
    folder = write_attacks(
        tmp_path / "attack" / "x", {(0, 0.5): RIGHT, (1, 0.5): {"predict": 1, column: value}}
    )
    if column == "radius":  # the manifest knows 0.5 alone
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["identity"]["radii"] = [0.5]
        (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=f"part-0-of-1.tsv, line 3: column .*{words}"):
        read_attacks(folder)


def test_rows_and_headers_that_no_attack_writes(tmp_path):
    folder = write_attacks(tmp_path / "attack" / "a", {(0, 0.5): RIGHT}, tail="1\t1\t0.5\n")
    with pytest.raises(StoreError, match="line 3: expected 11 columns, found 3"):
        read_attacks(folder)
    folder = write_attacks(
        tmp_path / "attack" / "b", {(0, 0.5): RIGHT}, columns=(*OLDER_COLUMNS, "time")
    )
    with pytest.raises(StoreError, match="does not start with the header of a store of attacks"):
        read_attacks(folder)


def test_a_row_may_be_there_twice_if_both_say_the_same(tmp_path):
    one, other = attack_row(0, 0.5, RIGHT), attack_row(0, 0.5, {"predict": RIGHT, "votes": 3})
    twice = write_attacks(
        tmp_path / "attack" / "a", {(0, 0.5): RIGHT}, parts=[[one], [{**one, "time": "0:00:09"}]]
    )
    assert len(read_attacks(twice).idx) == 1
    differs = write_attacks(tmp_path / "attack" / "b", {(0, 0.5): RIGHT}, parts=[[one], [other]])
    with pytest.raises(
        StoreError, match=r"index 0 is attacked twice at radius 0.5 .*votes 900 and 3"
    ):
        read_attacks(differs)
    labels = [attack_row(0, 0.5, RIGHT), attack_row(0, 1.0, {"predict": RIGHT, "label": 2})]
    with pytest.raises(StoreError, match="index 0 has two different labels"):
        read_attacks(
            write_attacks(tmp_path / "attack" / "c", {(0, 0.5): 1, (0, 1.0): 1}, parts=[labels])
        )


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"attack": 3}, "got `int` - at `..attack`"),
        ({"steps": "20"}, "got `str` - at `..steps`"),
        ({"noises": 10**400}, "at `..noises`"),
        ({"classes": None}, "missing required field `classes`"),
        ({"n": 0}, ">= 1 - at `..n`"),
        ({"steps": -1}, ">= 1 - at `..steps`"),
        ({"radii": [float("inf")]}, "is malformed"),
        ({"radii": None}, "missing required field `radii`"),
    ],
)
def test_a_manifest_that_anyone_could_have_written(tmp_path, identity, words):
    with pytest.raises(StoreError, match=words):
        read_attacks(write_attacks(tmp_path / "attack" / "x", {(0, 0.5): RIGHT}, **identity))
