"""A disk that is full, and folders that turn read-only, while a command writes."""

import os
import subprocess

import pytest

from tests.faults.commands import (
    RECIPE,
    copied,
    end,
    good,
    lines,
    outcome,
    refused,
    rows,
    start,
    wait_until,
)
from tests.faults.conftest import CERTIFY

TRAIN = ["train", *RECIPE, "--out"]


def mount(*words):
    return (
        subprocess.run(["mount", *map(str, words)], capture_output=True, check=False).returncode
        == 0
    )


@pytest.fixture
def disk(tmp_path):
    """disk(kilobytes): a real file system of that size; None where this user may not mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = []

    def sized(kilobytes):
        options = f"{'remount,' * bool(made)}size={kilobytes}k"
        if not mount("-t", "tmpfs", "-o", options, "none", place):
            return None
        made.append(place)
        return place

    yield sized
    if made:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def used(place):
    about = os.statvfs(place)
    return (about.f_blocks - about.f_bfree) * about.f_frsize // 1024


def test_the_disk_is_full_when_a_checkpoint_is_written(trained, disk, tmp_path, log):
    """Where a state already lies there is no room for the next one beside it."""
    state = (trained / "state.pt").stat().st_size
    place = disk(3 * state // 2 // 1024)
    if place is None:
        log("done", "no mount for this user: no file may grow beyond half of a state")
        out = tmp_path / "run"
        message = refused(*TRAIN, out, limit=state // 2)
    else:
        log(
            "done",
            f"a training of 3 epochs on a file system of {3 * state // 2:,} bytes; a state has {state:,}",
        )
        out = place / "run"
        message = refused(*TRAIN, out)
        assert (out / "state.pt").stat().st_size == state  # that of the first epoch
    log("printed", message.replace(str(tmp_path), ""))
    assert f"could not write {out}/state.pt" in message
    assert not list(out.glob(".*.tmp"))
    disk(100_000)
    good(*TRAIN, out)
    assert outcome(out) == outcome(trained)
    log(
        "found",
        "with more space the same command ends in the same weights and metrics, byte for byte",
    )


def test_the_disk_is_full_when_metrics_are_written(trained, disk, tmp_path, log):
    place = disk(8)  # two pages: one for config.yaml, one for environment.jsonl
    if place is None:
        pytest.skip("this user may not mount a small file system")
    out = place / "run"
    message = refused(*TRAIN, out)
    log(
        "done",
        "a training on a file system of 8 kB, which the settings and the record of the environment fill",
    )
    log("printed", message.replace(str(tmp_path), ""))
    assert f"could not write {out}/metrics.jsonl" in message
    disk(100_000)
    good(*TRAIN, out)
    assert outcome(out) == outcome(trained)
    log(
        "found",
        "with more space the same command ends in the same weights and metrics, byte for byte",
    )


def test_the_disk_is_full_when_certificates_are_written(trained, certified, disk, tmp_path, log):
    place = disk(100_000)
    run = copied(trained, (place or tmp_path) / "run")
    words, store = ["certify", run, *CERTIFY], run / "certify" / "test"
    if place is None:
        log("done", "no mount for this user: no file may grow beyond 6 kB")
        message = refused(*words, limit=6000)
    else:
        disk(used(place) + 12)  # a page each for the manifest and the claims, and one for rows
        log("done", "certify on a file system with room for the manifest and some thirty rows")
        message = refused(*words)
    log("printed", message.replace(str(tmp_path), ""))
    assert "could not write" in message
    assert str(store) in message
    (part,) = store.glob("part-*.tsv")
    kept = part.read_bytes()
    assert kept.endswith(b"\n")
    assert lines(store) > 10
    disk(100_000)
    good(*words)
    assert part.read_bytes().startswith(kept)
    assert rows(store) == rows(certified)
    assert "verified: 60 rows" in good("verify", run)
    whole = kept.count(b"\n") - 1
    log("found", f"{whole} whole rows stayed; with more space the rest came, and all are those of a "
                 "store that was never disturbed")  # fmt: skip


def writable(place, yes):
    """Turn a folder and all that it holds read-only, or back."""
    for path in (place, *place.rglob("*")):
        path.chmod(
            (0o755 if path.is_dir() else 0o644) if yes else (0o555 if path.is_dir() else 0o444)
        )


def test_a_store_that_turns_read_only_while_it_grows(trained, certified, tmp_path, log):
    run = copied(trained, tmp_path / "run")
    words, store = ["certify", run, *CERTIFY, "--max", 1000], run / "certify" / "test"
    process = start(*words)
    wait_until(lambda: lines(store) > 0, process)
    writable(store, False)
    status, said = end(process)
    if status == 0:
        pytest.skip("the certifier was quicker than the change")
    before = lines(store)
    log(
        "done",
        "chmod -R a-w of the store while a certifier is at work, as a user whom permissions bind",
    )
    log("printed", said.splitlines()[-1].replace(str(tmp_path), ""))
    assert status == 2, said
    assert "could not write" in said
    again = refused(*words)
    log("printed", "and again: " + again.replace(str(tmp_path), ""))
    assert "could not write" in again
    assert lines(store) == before > 0
    writable(store, True)
    good(*words)
    found = rows(store)
    assert len(found) == 1000
    assert {index: found[index] for index in rows(certified)} == rows(certified)
    log(
        "found", f"{before} rows stayed; made writable again, the same command went on to all 1,000"
    )


def test_a_run_that_turns_read_only_while_it_trains(trained, tmp_path, log):
    out = tmp_path / "run"
    process = start(*TRAIN, out)
    wait_until((out / "environment.jsonl").exists, process)
    writable(out, False)
    status, said = end(process)
    if status == 0:
        pytest.skip("the training was quicker than the change")
    log("done", "chmod -R a-w of a run folder while it trains")
    log("printed", said.splitlines()[-1].replace(str(tmp_path), ""))
    assert status == 2, said
    assert f"could not write {out}/" in said
    writable(out, True)
    good(*TRAIN, out)
    assert outcome(out) == outcome(trained)
    log(
        "found",
        "made writable again, the same command ends in the same weights and metrics, byte for byte",
    )
