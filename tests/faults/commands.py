"""The command line as a user has it: real processes, started, killed, stopped and limited."""

import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 600  # seconds after which a process that does nothing is a failure
RECIPE = [
    "mnist-mini/gaussian-0.50",
    "--device",
    "cpu",
    "--data",
    "npz:small.npz",
    "--epochs",
    "3",
]
PROGRESS = re.compile(r"\w+ [^:]*: \d+/\d+ ")
TRAINED = ("weights.safetensors", "metrics.jsonl", "model.json", "config.yaml")
_DROP, _OVERRIDE, _SEARCH = 24, 1, 2  # of linux/prctl.h and linux/capability.h


def start(*words, environment=None, path="", limit=None):
    """`smoothcert WORDS`; Python also looks for modules in `path`, and no file may grow beyond `limit` bytes."""

    def prepare():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for power in (_OVERRIDE, _SEARCH):  # file permissions hold for root too
            ctypes.CDLL(None).prctl(_DROP, power, 0, 0, 0)

    path = os.pathsep.join(filter(None, [str(path), str(ROOT), os.environ.get("PYTHONPATH")]))
    surroundings = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **(environment or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "smoothcert", *map(str, words)],
        env=surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )


def end(process):
    """Its status and what it said, without the lines of progress; nothing of ours ever shows a traceback."""
    out, err = process.communicate(timeout=PATIENCE)
    said = "\n".join(line for line in (out + err).splitlines() if not PROGRESS.match(line))
    assert "Traceback" not in said, said
    return process.returncode, said


def run(*words, **options):
    return end(start(*words, **options))


def good(*words, **options):
    status, said = run(*words, **options)
    assert status == 0, said
    return said


def refused(*words, **options):
    """The message of a command that must fail in one line of ours."""
    status, said = run(*words, **options)
    assert status == 2, said
    (message,) = [line for line in said.splitlines() if line.startswith("error: ")]
    return message


def kill(process):
    """kill -9; whether it came before the end."""
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def wait_until(seen, process):
    """Until `seen()` is true; a process that ends before is a failure."""
    latest = time.monotonic() + PATIENCE
    while not seen():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < latest
        time.sleep(0.01)


def lines(store):
    """How many whole rows the parts of a store hold."""
    return sum(max(path.read_bytes().count(b"\n") - 1, 0) for path in store.glob("part-*.tsv"))


def rows(store):
    """idx -> all cells but the time and the check that contains it; no input twice."""
    found = {}
    for part in sorted(store.glob("part-*.tsv")):
        header, *cells = [line.split("\t") for line in part.read_text().splitlines()]
        for row in cells:
            named = dict(zip(header, row, strict=True))
            del named["time"], named["check"]
            assert named["idx"] not in found
            found[named["idx"]] = named
    return found


def outcome(place):
    return {name: (place / name).read_bytes() for name in TRAINED}


def copied(place, target):
    """A run folder without its certificates."""
    return shutil.copytree(place, target, ignore=shutil.ignore_patterns("certify"))
