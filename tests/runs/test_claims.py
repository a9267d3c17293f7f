"""Several processes at one store: no row is made twice, and what a killed one was making, others make."""

import json
import time

import pytest

from smoothcert.errors import StoreError
from smoothcert.runs.claims import store_lock
from smoothcert.runs.executor import Executor, Here, Made
from smoothcert.runs.locks import locked
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from tests.processes import PATIENCE, Child
from tests.runs.rows import MANIFEST

COLUMNS = ("idx", "correct", "time")
SETTINGS = {"what": "test", "unit": "rows", "note": "correct", "quiet": True}


def made(folder):
    return ResultStore(folder, COLUMNS)


@pytest.fixture
def folder(tmp_path):
    made(tmp_path).claim(Manifest({**MANIFEST.identity, "max": 60}, 60, {}))
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
    made(folder).complete(selection.mine(list(range(60))), selection, Here(work), **SETTINGS)


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


def test_what_a_dead_process_had_claimed_is_made_by_one_of_the_others(folder):
    """Its claims stay, and the first who takes them over is alive."""
    (folder / ".part-0-of-9.claims").write_text(json.dumps(list(range(60))))
    (folder / ".part-0-of-9.lock").touch()
    first = Child(make_rows, folder, None, 1, waits_at=1)
    assert first.next_report() == [0]
    second = Child(make_rows, folder, None, 1, waits_at=1)
    assert second.next_report() == [1]
    for child in (first, second):
        child.go_on()
    for child in (first, second):
        child.result()
    assert sorted(name for part in rows(folder) for name in part) == list(range(60))


def test_rows_are_not_waited_for_whose_process_is_gone(folder):
    """Its claims are still there, but not its lock."""
    (folder / ".part-0-of-9.claims").write_text("[0, 1, 2]")
    (folder / ".part-0-of-9.lock").touch()
    child = Child(make_rows, folder, 0, 1)
    assert child.next_report() == [3]
    child.result()
    assert rows(folder) == [[*range(3, 60), 0, 1, 2]]


@pytest.mark.parametrize("names", ['[{"a": 1}, [[0]]]', "[[[]]]", "5", "null", "[" * 100_000, "{"])
def test_claims_that_name_no_rows_claim_nothing(folder, names):
    """A claim decides nothing, whoever wrote it."""
    (folder / ".part-0-of-9.claims").write_text(names)
    child = Child(make_rows, folder, 0, 1)
    assert child.next_report() == [0]
    child.result()
    assert rows(folder) == [[*range(60)]]


def test_claims_of_inputs_and_radii(folder):
    """As of attacks, whose rows have two names."""
    store = ResultStore(folder, ("idx", "radius", "correct", "time"), ("idx", "radius"))
    wanted = [(i, r) for i in range(3) for r in (0.1, 0.25)]
    seen = []

    def work(now):
        seen.extend(now)
        if len(seen) == 1:  # another process takes the others meanwhile
            other = Selection(shard=1, shards=2)
            store.complete(wanted[1:], other, Here(work), **SETTINGS)
        return [{"idx": i, "radius": r, "correct": 1} for i, r in now]

    store.complete(wanted, Selection(shards=2), Here(work), **SETTINGS)
    assert sorted(seen) == wanted
    assert store.done() == set(wanted)


def test_without_shards_each_process_has_a_part_of_its_own_and_goes_on_with_that_of_a_dead_one(
    folder,
):
    slow = Child(make_rows, folder, None, 1, waits_at=1)
    assert slow.next_report() == [0]
    other = Child(make_rows, folder, None, 1)
    other.next_report()
    while len(made(folder).done()) < 59:
        time.sleep(0.01)
    assert slow.kill()
    other.result()
    assert rows(folder) == [[], [*range(1, 60), 0]]
    made(folder).claim(Manifest({**MANIFEST.identity, "max": 70}, 70, {}))
    selection = Selection(shard=None)
    made(folder).complete(list(range(70)), selection, Here(row_of), **SETTINGS)
    assert rows(folder) == [list(range(60, 70)), [*range(1, 60), 0]]
    assert [path.stem[-2:] for path in sorted(folder.glob("part-auto-*"))] == ["-0", "-1"]


def row_of(now):
    return [{"idx": name, "correct": 1} for name in now]


def test_what_is_claimed_for_very_long_is_made_by_others_and_counts_once(folder, monkeypatch):
    """By a machine that hangs, or that is gone while its disk still holds the lock."""
    monkeypatch.setattr("smoothcert.runs.store.PATIENCE", 0.0)
    hanging = Child(make_rows, folder, None, 1, waits_at=1)
    assert hanging.next_report() == [0]
    made(folder).complete(list(range(60)), Selection(shard=None), Here(row_of), **SETTINGS)
    assert hanging.alive
    assert made(folder).done() == set(range(60))
    assert hanging.kill()


def hold(report, path):
    with locked(path, None):
        report()
        time.sleep(PATIENCE)


def test_a_process_that_hangs_while_it_claims_holds_nobody_up(folder, monkeypatch):
    """Neither those that claim, nor those that begin or raise the number of inputs."""
    monkeypatch.setattr("smoothcert.runs.store.PATIENCE", 0.01)
    hanging = Child(hold, store_lock(folder))
    hanging.next_report()
    made(folder).claim(Manifest({**MANIFEST.identity, "max": 70}, 70, {}))
    made(folder).complete(list(range(70)), Selection(shard=None), Here(row_of), **SETTINGS)
    assert hanging.alive
    assert rows(folder) == [list(range(70))]
    assert hanging.kill()


def test_an_unreadable_claim_of_a_process_that_hangs_claims_nothing(folder):
    hanging = Child(make_rows, folder, None, 1, waits_at=1)
    assert hanging.next_report() == [0]
    next(folder.glob(".part-auto-*-0.claims")).write_text("[0, 1")
    made(folder).complete(list(range(60)), Selection(shard=None), Here(row_of), **SETTINGS)
    assert made(folder).done() == set(range(60))
    assert hanging.kill()


class Several(Executor):
    """Three groups at a time, given back in another order than they came."""

    def __init__(self):
        self.waiting, self.most, self.seen = [], 0, []

    @property
    def idle(self):
        return len(self.waiting) < 3

    def submit(self, names):
        self.waiting.append(names)
        self.seen += names
        self.most = max(self.most, len(self.waiting))

    def collect(self):
        names = self.waiting.pop()
        return [Made(names, row_of(names), 0.1 * len(names))]


def test_an_executor_may_have_several_groups_under_way(folder):
    executor = Several()
    made(folder).complete(list(range(60)), Selection(), executor, **SETTINGS)
    assert executor.most == 3
    assert sorted(executor.seen) == list(range(60))
    assert rows(folder) != [list(range(60))]
    assert made(folder).done() == set(range(60))


@pytest.mark.parametrize("given", [[], [0], [1, 0], [0, 0], [0, 7], [0, 1, 2]])
def test_rows_of_other_inputs_than_those_asked_for_are_not_written(folder, given):
    store = made(folder)
    with store.writer(0) as part:
        part.add({"idx": 9, "correct": 1, "time": "0:00:01"})

    class Confused(Several):
        def collect(self):
            return [Made([0, 1], row_of(given), 0.1)]

    with pytest.raises(StoreError, match=r"expected rows of the inputs \[0, 1\], found those of"):
        store.complete([0, 1], Selection(), Confused(), **SETTINGS)
    assert store.done() == {9}


def test_a_row_that_another_made_too_counts_once_beside_the_bar(folder, capsys):
    """It was under way here, among others, when the other process wrote it."""

    class Raced(Several):
        raced = False

        def collect(self):
            if not self.raced:
                with made(folder).writer(1, 2) as other:
                    other.add({"idx": 0, "correct": 1, "time": "0:00:01"})
            names = self.waiting.pop(0 if self.raced else 1)
            self.raced = True
            return [Made(names, row_of(names), 0.1 * len(names))]

    made(folder).complete(list(range(60)), Selection(), Raced(), **{**SETTINGS, "quiet": False})
    told = capsys.readouterr().err
    assert "60/60" in told
    assert "61/60" not in told
    assert sorted(name for part in rows(folder) for name in part) == [0, *range(60)]


def test_groups_grow_step_by_step_to_half_a_second():
    def after(size, seconds_each, claiming=0.0):
        return Here(row_of).next_group(Made(range(size), [], size * seconds_each), claiming)

    sizes, size = [], 1
    for _ in range(12):
        size = after(size, 0.003)
        sizes.append(size)
    assert sizes == [2, 4, 8, 16, 32, 64, 128, 166, 166, 166, 166, 166]
    assert after(166, 9.0) == 1
    assert after(256, 0.0) == 256
    assert (
        after(20, 1.0, claiming=1.0) == 20
    )  # a twentieth of the time goes into claims, however many processes
