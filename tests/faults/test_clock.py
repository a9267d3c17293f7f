"""The clock of the machine jumps by a day, forwards and backwards, while commands run."""

import itertools
import time

from tests.faults.commands import RECIPE, end, good, outcome, rows, start
from tests.faults.conftest import CERTIFY

JUMPING = """
import os, time
def shifted(real, unit):
    def clock():
        with open(os.environ["SHIFT"]) as file:
            return real() + int(file.read()) * unit
    return clock
time.time, time.time_ns = shifted(time.time, 1), shifted(time.time_ns, 10**9)
"""
"""What Python runs at its start. As when a clock is set, what measures durations goes on."""


def jumping(place, *words):
    """Run a command whose clock jumps to and fro by a day every tenth of a second; what it says, and how often."""
    clock = place / "clock"
    clock.write_text("0")
    (place / "sitecustomize.py").write_text(JUMPING)
    process = start(*words, environment={"SHIFT": str(clock)}, path=place)
    offsets = itertools.cycle([24 * 3600, -24 * 3600])
    jumps = 0
    while process.poll() is None:
        following = clock.with_suffix(".next")
        following.write_text(str(next(offsets)))
        following.replace(clock)  # never half a file
        jumps += 1
        time.sleep(0.1)
    status, said = end(process)
    assert status == 0, said
    return said, jumps


def test_the_clock_jumps_while_certifying(certified, run_folder, tmp_path, log):
    _, jumps = jumping(tmp_path, "certify", run_folder, *CERTIFY)
    store = run_folder / "certify" / "test"
    log("done", f"certify while the clock jumps {jumps} times between yesterday and tomorrow")
    assert rows(store) == rows(certified)
    seconds = [
        line.split("\t")[5] for line in (store / "part-0-of-1.tsv").read_text().splitlines()[1:]
    ]
    assert all(text.startswith("0:0") for text in seconds)  # no row took a day
    assert "verified: 60 rows" in good("verify", run_folder)
    log(
        "found",
        f"the rows of a store that was never disturbed; the longest time of a row is {max(seconds)}",
    )


def test_the_clock_jumps_while_training(trained, tmp_path, log):
    out = tmp_path / "run"
    _, jumps = jumping(tmp_path, "train", *RECIPE, "--out", out)
    log("done", f"train while the clock jumps {jumps} times between yesterday and tomorrow")
    assert outcome(out) == outcome(trained)
    log("found", "weights and metrics of a run that was never disturbed, byte for byte")
