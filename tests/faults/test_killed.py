"""kill -9 at random moments of a process's life, again and again: what was done stays, and nothing is done twice."""

import random
import signal
import time

from tests.faults.commands import (
    RECIPE,
    copied,
    end,
    good,
    kill,
    lines,
    outcome,
    refused,
    rows,
    start,
    wait_until,
)
from tests.faults.conftest import CERTIFY

WORK = 30  # seconds that all certificates of the store take, whatever the machine


def killed(count, chance, longest, *words, watch):
    """Start and kill a command so many times, after at most `longest` seconds; what `watch()` says after each kill."""
    seen, ended = [], 0
    while len(seen) < count:
        process = start(*words)
        time.sleep(chance.random() * longest)
        if kill(process):
            seen.append(watch())
        else:
            ended += 1
            assert ended <= 4 * count, "it is always quicker than the kill"
    return seen, ended


def test_a_certifier_killed_fifty_times(trained, run_folder, tmp_path, log):
    """The certificates take half a minute altogether, so that the kills meet it at work."""
    probe = copied(trained, tmp_path / "probe")
    seconds = [time.monotonic()]
    for images, n in ((1, 100), (20, 2000)):
        good("certify", probe, "--device", "cpu", "--n", n, "--max", images, "--name", n)
        seconds.append(time.monotonic())
    startup = seconds[1] - seconds[0]
    each = max((seconds[2] - seconds[1] - startup) / 20 / 2000, 1e-7)  # of one noisy copy
    n = min(100_000, max(100, round(WORK / 1000 / each)))
    words = ["certify", run_folder, "--device", "cpu", "--n", n]
    store = run_folder / "certify" / "test"
    seen, ended = killed(
        50, random.Random(0), startup + WORK / 30, *words, watch=lambda: lines(store)
    )
    log("done", f"{' '.join(map(str, ['certify', 'RUN', *words[2:]]))} on 1,000 images, started {50 + ended} times and "
                f"killed 50 times, after 0 to {startup + WORK / 30:.1f} s (seeded)")  # fmt: skip
    log("found", f"whole rows after each kill: {' '.join(map(str, seen))}")
    assert seen == sorted(seen)
    assert len(set(seen)) > 1  # some kills met it at work
    good(*words)
    whole = copied(trained, tmp_path / "whole")
    good("certify", whole, *words[2:])
    assert rows(store) == rows(whole / "certify" / "test")
    assert len(rows(store)) == 1000
    said = good("verify", run_folder)
    log("printed", said.replace(str(run_folder), "RUN"))
    log(
        "found",
        "after one more start all 1,000 rows, each once, are those of a store that was never disturbed",
    )
    assert ": verified: 1,000 rows" in said


def test_a_training_killed_six_times(trained, tmp_path, log):
    out = tmp_path / "run"
    words = ["train", *RECIPE, "--out", out]
    started = time.monotonic()
    good(*words[:-1], tmp_path / "timed")
    took = time.monotonic() - started

    def epochs():
        metrics = out / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    seen, ended = killed(6, random.Random(1), took, *words, watch=epochs)
    good(*words)
    log(
        "done",
        f"a training of 3 epochs, started {6 + ended} times and killed 6 times, after 0 to {took:.1f} s",
    )
    log("found", f"lines of metrics after each kill: {' '.join(map(str, seen))}; in the end weights, metrics and "
                 "settings are byte for byte those of a run that was never disturbed")  # fmt: skip
    assert outcome(out) == outcome(trained)


def test_two_certifiers_on_one_store(certified, run_folder, log):
    """The first is stopped in the middle of its work, so that it surely has the part when the second comes."""
    words = ["certify", run_folder, *CERTIFY]
    store = run_folder / "certify" / "test"
    first = start(*words)
    wait_until(lambda: lines(store) > 0, first)
    first.send_signal(signal.SIGSTOP)
    before = lines(store)
    if before < 60:
        message = refused(*words)
        log(
            "done", f"a certifier, stopped after {before} of 60 rows, and another on the same shard"
        )
        log("printed", message.replace(str(run_folder), "RUN"))
        assert "another process is writing" in message
        assert "part-0-of-1.tsv" in message
        assert lines(store) == before
    first.send_signal(signal.SIGCONT)
    assert end(first)[0] == 0
    assert rows(store) == rows(certified)


def test_certifiers_of_different_shards(certified, run_folder, log):
    words = ["certify", run_folder, *CERTIFY]
    store = run_folder / "certify" / "test"
    together = [start(*words, "--shard", shard) for shard in ("0/2", "1/2", "0/1", "2/3")]
    assert [end(process)[0] for process in together] == [0] * 4
    sizes = {
        part.name: part.read_bytes().count(b"\n") - 1 for part in sorted(store.glob("part-*.tsv"))
    }
    log("done", "four certifiers at once on one store: shards 0/2, 1/2, 0/1 and 2/3")
    log("found", f"rows by part: {', '.join(f'{name} {size}' for name, size in sizes.items())}; none twice, all as in "
                 "a store that was never disturbed")  # fmt: skip
    assert rows(store) == rows(certified)
    assert "verified: 60 rows" in good("verify", run_folder)
