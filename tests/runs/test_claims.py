"""Several processes at one store: no row is made twice, and what a killed one was making, others make."""

import time

import pytest

from smoothcert.runs.selection import Selection
from smoothcert.runs.store import Manifest, ResultStore
from tests.processes import Child

COLUMNS = ("idx", "correct", "time")
SETTINGS = {"what": "test", "unit": "rows", "note": "correct", "quiet": True}


def made(folder):
    return ResultStore(folder, COLUMNS)


@pytest.fixture
def folder(tmp_path):
    made(tmp_path).claim(Manifest({"max": 60}, 60, {}))
    return tmp_path


def make_rows(report, folder, shard, shards):
    """Make the rows of a shard; tells which it begins with."""
    begun = []

    def work(now):
        if not begun:
            begun.extend(now)
            report(begun)
        time.sleep(0.001 * len(now))
        return [{"idx": name, "correct": 1} for name in now]

    selection = Selection(shard=shard, shards=shards)
    made(folder).complete(selection.mine(list(range(60))), selection, work, **SETTINGS)


def rows(folder):
    """The names of all rows, each as often as it is there, by part."""
    return [[int(row["idx"]) for row in part.rows()] for part in made(folder).parts()]


def test_shards_of_different_numbers_do_no_input_twice(folder):
    children = [Child(make_rows, folder, *shard, waits_at=1) for shard in ((0, 1), (0, 3), (1, 3))]
    first = [child.next_report() for child in children]  # now all of them are at work
    for child in children:
        child.go_on()
    for child in children:
        child.result()
    parts = rows(folder)
    assert sorted(name for part in parts for name in part) == list(range(60))
    assert [part[0] for part in parts] == [names[0] for names in first]
    assert not list(folder.glob(".part-*.claims"))


def test_what_a_killed_process_had_claimed_is_made_by_the_one_that_waits_for_it(folder):
    slow = Child(make_rows, folder, 0, 1, waits_at=1)
    assert slow.next_report() == [0]
    other = Child(make_rows, folder, 0, 3)
    other.next_report()
    while len(made(folder).done()) < 19:  # all of its twenty but the claimed one
        time.sleep(0.01)
    assert other.alive
    assert 0 not in made(folder).done()
    assert slow.kill()
    other.result()
    assert rows(folder) == [[], [*range(3, 60, 3), 0]]


def test_rows_are_not_waited_for_whose_process_is_gone(folder):
    """Its claims are still there, but not its lock."""
    (folder / ".part-0-of-9.claims").write_text("[0, 1, 2]")
    (folder / ".part-0-of-9.lock").touch()
    child = Child(make_rows, folder, 0, 1)
    assert child.next_report() == [0]
    child.result()
    assert rows(folder) == [list(range(60))]


def test_claims_of_inputs_and_radii(folder):
    """As of attacks, whose rows have two names."""
    store = ResultStore(folder, ("idx", "radius", "correct", "time"), ("idx", "radius"))
    wanted = [(i, r) for i in range(3) for r in (0.1, 0.25)]
    seen = []

    def work(now):
        seen.extend(now)
        if len(seen) == 1:  # another process takes the others meanwhile
            other = Selection(shard=1, shards=2)
            store.complete(wanted[1:], other, work, **SETTINGS)
        return [{"idx": i, "radius": r, "correct": 1} for i, r in now]

    store.complete(wanted, Selection(shards=2), work, **SETTINGS)
    assert sorted(seen) == wanted
    assert store.done() == set(wanted)
