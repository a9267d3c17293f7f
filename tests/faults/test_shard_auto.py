"""Machines that share a disk (`--shard auto`): one dies for good, one hangs, and the others finish."""

import signal

import pytest

from tests.faults.commands import copied, end, good, kill, lines, rows, start, wait_until

WORK = ["--device", "cpu", "--n", 2000, "--max", 200]


@pytest.fixture(scope="module")
def undisturbed(trained, tmp_path_factory):
    run = copied(trained, tmp_path_factory.mktemp("shards") / "run")
    good("certify", run, *WORK)
    return rows(run / "certify" / "test")


def parts(store):
    """How many rows each part has."""
    return [part.read_bytes().count(b"\n") - 1 for part in sorted(store.glob("part-*.tsv"))]


def test_one_of_three_machines_killed_for_good(undisturbed, run_folder, log):
    words, store = (
        ["certify", run_folder, *WORK, "--shard", "auto"],
        run_folder / "certify" / "test",
    )
    machines = [start(*words) for _ in range(3)]
    wait_until(lambda: len(parts(store)) == 3 and min(parts(store)) > 0, machines[0])
    before = lines(store)
    assert kill(machines[0])
    ends = [end(other) for other in machines[1:]]
    log(
        "done",
        f"three processes with --shard auto; one killed by -9 after {before} of 200 rows, never started again",
    )
    log("printed", ends[0][1].splitlines()[0])
    log(
        "found",
        f"rows of each: {' '.join(map(str, parts(store)))}; together those of one process, each once",
    )
    assert [status for status, _ in ends] == [0, 0]
    assert rows(store) == undisturbed
    assert "verified: 200 rows" in good("verify", run_folder)


def test_one_of_two_machines_hangs(undisturbed, run_folder, log):
    """After a minute the other one makes its rows too; when it wakes up, equal rows count once."""
    words, store = (
        ["certify", run_folder, *WORK, "--shard", "auto"],
        run_folder / "certify" / "test",
    )
    hanging = start(*words)
    wait_until(lambda: lines(store) > 0, hanging)
    hanging.send_signal(signal.SIGSTOP)
    before = lines(store)
    good(*words)
    status = good("status", run_folder)
    hanging.send_signal(signal.SIGCONT)
    assert end(hanging)[0] == 0
    log(
        "done",
        f"a process with --shard auto stopped by SIGSTOP after {before} of 200 rows, another one started",
    )
    log("printed", status.splitlines()[2].strip())
    log("printed", good("verify", run_folder).replace(str(run_folder), "RUN"))
    log(
        "found",
        f"rows of each, after the first went on: {' '.join(map(str, parts(store)))}; a report counts each once",
    )
    assert "all 200 inputs done" in status
    assert "  200 " in good("report", run_folder)
