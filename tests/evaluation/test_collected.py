"""results.json: rows of several commands come together, and only those that belong together."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from smoothcert.errors import StoreError
from smoothcert.evaluation.collected import Collected, key_of, row_of

OPTIONS = {"epochs": None, "dataset": None, "every": None, "max": 10, "n": 1000}
ROWS = [(None, None, f"mnist/{name}") for name in "abc"]


def entry(name, seed=0, acr=1.0):
    return {"recipe": f"mnist/{name}", "seed": seed, "acr": acr}


def names(found):
    return ", ".join(f"{each['recipe'][-1]}{each['seed']} {each['acr']}" for each in found)


@pytest.fixture
def file(tmp_path):
    return Collected(tmp_path / "results.json", ROWS, OPTIONS)


def read(file):
    return json.loads(file.path.read_text())


def test_rows_of_several_commands_end_as_the_whole_table_in_its_order(file):
    assert file.add([entry("c")], names) == "c0 1.0"
    assert file.add([entry("a", 1), entry("b")], names) == "a1 1.0, b0 1.0, c0 1.0"
    assert file.add([entry("a", 0)], names) == "a0 1.0, a1 1.0, b0 1.0, c0 1.0"
    assert (
        names(read(file))
        == file.path.with_suffix(".md").read_text()
        == "a0 1.0, a1 1.0, b0 1.0, c0 1.0"
    )
    assert all(each["options"] == OPTIONS for each in read(file))


def test_a_row_that_is_made_again_is_replaced(file):
    file.add([entry("a"), entry("b")], names)
    assert file.add([entry("b", acr=2.0)], names) == "a0 1.0, b0 2.0"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epochs": 1}, "epochs not given there, 1 here"),
        ({"n": 2000}, "n 1000 there, 2000 here"),
        ({"max": None}, "max 10 there, not given here"),
        (
            {"every": 2, "dataset": "mnist-mini"},
            "dataset not given there, mnist-mini here; every not given there",
        ),
        ({"seeds": [1]}, "seeds not given there, [1] here"),
    ],
)
def test_rows_of_other_options_are_refused_unless_all_are_made_again(file, change, said):
    file.add([entry("a"), entry("b")], names)
    before = file.path.read_bytes()
    other = Collected(file.path, ROWS, {**OPTIONS, **change})
    with pytest.raises(StoreError) as refused:
        other.kept([key_of(entry("a"))])
    assert said in str(refused.value)
    assert "or another --out" in str(refused.value)
    with pytest.raises(StoreError, match="were made with other options"):
        other.add([entry("a")], names)
    assert file.path.read_bytes() == before
    assert other.add([entry("a"), entry("b", acr=2.0)], names) == "a0 1.0, b0 2.0"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([{**entry("z"), "options": OPTIONS}], r"a row of another table \(mnist/z\)"),
        (
            [{**entry("b"), "table": "x/table-1", "options": OPTIONS}],
            r"another table \(x/table-1 mnist/b\)",
        ),
        ([entry("b")], "made with other options: .*n not given there"),
        ([1], "should be a list of outcomes"),
        ({"b": 1}, "should be a list of outcomes"),
        ([{"acr": 1.0}], "should be a list of outcomes"),
        ([{**entry("b"), "options": 3}], "should be a list of outcomes"),
    ],
)
def test_what_does_not_belong_there_is_refused_and_stays(file, content, said):
    file.path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match=said):
        file.add([entry("a")], names)
    assert json.loads(file.path.read_text()) == content
    file.path.write_text("{torn")
    with pytest.raises(StoreError, match="cannot be read"):
        file.kept([])


def test_a_file_of_an_older_version_is_replaced_by_the_whole_table(file):
    file.path.write_text(json.dumps([entry("a"), entry("b")]))
    assert file.add([entry("a"), entry("b"), entry("c")], names) == "a0 1.0, b0 1.0, c0 1.0"


def test_corruptions_of_one_row_are_outcomes_of_their_own(tmp_path):
    made = [
        {"table": "t", "row": "r", **entry("a"), "corruption": kind, "severity": severity}
        for kind in ("fog", "snow")
        for severity in (1, 2)
    ]
    file = Collected(tmp_path / "results.json", [row_of(made[0])], OPTIONS)
    for each in made:
        file.add([each], names)
    assert [(each["corruption"], each["severity"]) for each in read(file)] == [
        ("fog", 1),
        ("fog", 2),
        ("snow", 1),
        ("snow", 2),
    ]


def test_commands_that_end_at_the_same_time_lose_no_row(file):
    seeds = range(20)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: file.add([entry("a", seed)], names), seeds))
    assert [each["seed"] for each in read(file)] == list(seeds)
    assert file.path.with_suffix(".md").read_text() == names(read(file))
