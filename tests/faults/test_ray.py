"""A Ray worker killed, a Ray node removed, and the driver killed, while `certify --ray` works."""

import contextlib
import os
import signal
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.faults.commands import PATIENCE, copied, end, good, kill, lines, rows, start, wait_until

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of ray and what it imports
]

IMAGES = 200
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}


def at_work(run, *words):
    """The command, stopped by SIGSTOP after its first rows and before its last one; its words, and the rows then.

    A machine that had finished before it was stopped gets more to do.
    """
    for n in (500, 4000, 32000, 256000):
        given = [
            "certify",
            run,
            "--device",
            "cpu",
            "--n0",
            32,
            "--n",
            n,
            "--max",
            IMAGES,
            "--name",
            n,
        ]
        process, store = start(*given, "--ray", *words), run / "certify" / str(n)
        wait_until(lambda store=store: lines(store) > 0, process)
        process.send_signal(signal.SIGSTOP)
        if (made := lines(store)) < IMAGES // 2:
            return process, given, store, made
        process.send_signal(signal.SIGCONT)
        end(process)
    raise AssertionError("it is always quicker than the signal")


def workers(process):
    """Ray's workers that certify for this command on a cluster of its own."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(place.name)] = int(
                (place / "stat").read_text().rpartition(")")[2].split()[1]
            )
    family = [process.pid]
    for one in family:
        family += [child for child, parent in parents.items() if parent == one]
    return [pid for pid in family if _title(pid).startswith("ray::Worker")]


def _title(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def gone(pids):
    latest = time.monotonic() + PATIENCE
    while any(_title(pid) for pid in pids):
        assert time.monotonic() < latest
        time.sleep(0.05)


def check(trained, given, store, tmp_path):
    """All rows are there, each once, and are those of one process that nothing disturbed."""
    whole = copied(trained, tmp_path / "whole")
    good(given[0], whole, *given[2:])
    assert rows(store) == rows(whole / "certify" / store.name)
    assert len(rows(store)) == IMAGES


def test_a_ray_worker_killed(trained, run_folder, tmp_path, log):
    process, given, store, made = at_work(run_folder)
    for pid in workers(process):
        os.kill(pid, signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    status, said = end(process)
    assert status == 0, said
    assert "a worker is gone" in said
    log(
        "done",
        f"kill -9 of every Ray worker of a certification of {IMAGES} images, after {made} rows",
    )
    log("printed", next(line for line in said.splitlines() if "a worker is gone" in line))
    check(trained, given, store, tmp_path)
    log("found", "others were started and finished; all rows, each once, are those of one process")


def test_a_ray_node_removed(trained, run_folder, tmp_path, log):
    from smoothcert.certification.ray_cluster import import_ray

    import_ray(alone=True)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
    try:
        node = cluster.add_node(**NODE)
        process, given, store, made = at_work(run_folder, cluster.address)
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(**NODE)
        process.send_signal(signal.SIGCONT)
        status, said = end(process)
    finally:
        cluster.shutdown()
    assert status == 0, said
    assert "a worker is gone" in said
    log(
        "done",
        f"the only worker node of a Ray cluster killed after {made} of {IMAGES} rows; another one joined",
    )
    log("printed", next(line for line in said.splitlines() if "a worker is gone" in line))
    check(trained, given, store, tmp_path)
    log("found", "the new node did the rest; all rows, each once, are those of one process")


def test_the_driver_of_a_ray_cluster_killed(trained, run_folder, tmp_path, log):
    process, given, store, made = at_work(run_folder)
    working = workers(process)
    assert working
    assert kill(process)
    gone(working)
    assert lines(store) == made
    good(*given, "--ray")
    log("done", f"kill -9 of the command after {made} of {IMAGES} rows, and the same command again")
    check(trained, given, store, tmp_path)
    log(
        "found",
        f"its {len(working)} workers ended with it; all rows, each once, are those of one process",
    )
