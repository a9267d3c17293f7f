"""Lines of results/*.jsonl: what is written is read again, and what is no such line is refused."""

import json
import math

import pytest

from smoothcert.errors import StoreError
from smoothcert.published.measured import Made, Measured, add_measured, read_measured
from smoothcert.statistics.value import ACR, CERTIFIED_ACCURACY, Value
from tests.processes import CONTEXT


def measured(seed=0, acr=0.5, note="", **settings):
    made = Made(
        recipe="mnist/gaussian-0.50",
        changes={"epochs": 3},
        as_printed=False,
        seed=seed,
        commands=("smoothcert train mnist/gaussian-0.50",),
        commits={"train": ("0123456",)},
        device="a machine",
        torch="2",
        seconds={"train": 30.0, "certify": 20.0},
        note=note,
    )
    method = {"name": "gaussian"}
    config = {"dataset": "mnist", "model": "lenet", "method": method, "sigma": 0.5}
    config |= {"epochs": 3, "seed": seed}
    values = (
        Value(made.recipe, ACR, acr, images=10),
        Value(made.recipe, CERTIFIED_ACCURACY, 0.0, 0.0, "fog/3", images=10),
    )
    beside = {"authors": (Value("authors", ACR, -0.1, None, "", 0.0, 0.25, images=10),)}
    usual = {"n": 100, "images": 10, "noise": "exact", "dataset": "mnist", "split": "test"}
    usual |= {"start": 0, "every": 1, **settings}
    return Measured(config, usual, values, beside, made)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "new" / "a.jsonl"
    add_measured(path, [measured()])
    (found,) = read_measured([path])
    expected = measured()
    assert (found.config, found.settings, found.made) == (
        expected.config,
        expected.settings,
        expected.made,
    )
    for ours, theirs in zip(
        (*found.values, *found.beside["authors"]),
        (*expected.values, *expected.beside["authors"]),
        strict=True,
    ):
        for one, other in zip(ours, theirs, strict=True):
            assert one == other or (math.isnan(one) and math.isnan(other))
    assert json.loads(path.read_text())["format"] == 1


def test_the_last_line_of_a_training_seed_and_certification_counts(tmp_path):
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    add_measured(path, [measured(0, 0.1), measured(1, 0.2), measured(0, 0.3)])
    add_measured(other, [measured(1, 0.4), measured(1, 0.5, n=200)])
    found = {
        (run.made.seed, run.settings["n"]): run.values[0].value
        for run in read_measured([path, other])
    }
    assert found == {(0, 100): 0.3, (1, 100): 0.4, (1, 200): 0.5}


def test_an_unfinished_last_line_is_passed_over_and_named_once_others_follow(tmp_path):
    path = tmp_path / "a.jsonl"
    add_measured(path, [measured(0), measured(1)])
    path.write_bytes(path.read_bytes()[:-20])
    assert [run.made.seed for run in read_measured([path])] == [0]
    add_measured(path, [measured(2)])
    with pytest.raises(StoreError, match=r"a.jsonl, line 2: expected a measured run"):
        read_measured([path])
    whole = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([whole[0], *whole[2:]]))
    assert [run.made.seed for run in read_measured([path])] == [0, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, r"made by a newer \(or older\) smoothcert: expected format 1, found 2"),
        ({"format": None}, "made by a newer"),
        ({"more": 1}, "unknown field `more`"),
        ({"values": [{"measure": "ACR", "value": "1"}]}, "Expected `float`"),
        ({"values": [{"measure": "ACR", "value": 1.0, "r2": 0}]}, "unknown field `r2`"),
        ({"made": {}}, "missing required field"),
        ({"config": []}, "Expected `object`"),
        ({"config": {"dataset": "mnist"}}, "missing setting of the training"),
        ({"settings": {"n": 100}}, "missing required field `noise`"),
    ],
)
def test_other_lines_are_refused(tmp_path, change, said):
    path = tmp_path / "a.jsonl"
    add_measured(path, [measured()])
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}) + "\n")
    with pytest.raises(StoreError, match=f"a.jsonl, line 1.*{said}"):
        read_measured([path])


@pytest.mark.parametrize("text", ["[]", "not JSON", "[" * 100_000, "\xff", '"text"', "{}"])
def test_text_that_is_no_line_is_refused(tmp_path, text):
    path = tmp_path / "a.jsonl"
    path.write_text(text + "\n", encoding="latin-1")
    with pytest.raises(StoreError, match="line 1"):
        read_measured([path])


def append(path, seed):
    for n in range(20):
        add_measured(path, [measured(seed, n=n, note="x" * 5000)])


def test_processes_that_append_at_once_lose_no_line(tmp_path):
    path = tmp_path / "a.jsonl"
    children = [CONTEXT.Process(target=append, args=(path, seed)) for seed in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert len(read_measured([path])) == 60
