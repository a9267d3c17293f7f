"""Does a run that is stopped again and again end like one that is left alone? With real processes and signals.

    python benchmarks/interruptions.py --kills 50 --terms 20

`smoothcert train` and then `smoothcert certify` are started, and stopped after a random time by SIGKILL or SIGTERM,
until all signals are spent; then the command runs to its end. Weights, metrics and certificates must be those of the
same commands left alone. Times are drawn up to the time that the work had taken so far, so that signals come while
modules are imported, between steps, and while files are written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}  # another number of threads may round sums differently
EXPECTED = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 128 + signal.SIGTERM}


def stop_again_and_again(words: list[str], signals: list[signal.Signals], start: float, span: float) -> Counter[int]:
    """Exit statuses of the command, stopped `start` to `start + span` seconds after its start; by none at the end."""
    statuses: Counter[int] = Counter()
    for number in signals:
        with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            time.sleep(random.random() * start if random.random() < 0.2 else start + random.random() * span)
            early = process.poll() is None
            process.send_signal(number)
            started = time.monotonic()
            _, said = process.communicate()
            waited = time.monotonic() - started
        assert not early or process.returncode in (EXPECTED[number], 0), (process.returncode, said.decode())
        assert b"Traceback" not in said, said.decode()
        assert waited < 10, f"{waited:.1f} s to end"
        statuses[process.returncode] += 1
    subprocess.run(words, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return statuses


def rows(part: Path) -> list[list[str]]:
    header, *lines = (line.split("\t") for line in part.read_text().splitlines())
    return sorted([cell for name, cell in zip(header, line, strict=True) if name != "time"] for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--start", type=float, default=2.0, help="seconds until the command works on its data")
    parser.add_argument("--span", type=float, default=3.0, help="seconds in which it is stopped from then on")
    given = parser.parse_args()
    command = [sys.executable, "-m", "smoothcert"]
    with TemporaryDirectory() as name:
        out, whole = Path(name, "stopped"), Path(name, "whole")
        train = [
            *command,
            "train",
            "mnist-mini/gaussian-0.50",
            "--epochs",
            str(given.epochs),
            "--device",
            "cpu",
            "--out",
        ]
        certify = ["--max", str(given.images), "--n", str(given.n), "--device", "cpu"]
        for folder, count in ((whole, (0, 0)), (out, (given.kills, given.terms))):
            found = {}
            for step, words in (
                ("train", [*train, str(folder)]),
                ("certify", [*command, "certify", str(folder), *certify]),
            ):
                signals = count[0] * [signal.SIGKILL] + count[1] * [signal.SIGTERM]
                random.shuffle(signals)
                found[step] = dict(stop_again_and_again(words, signals, given.start, given.span))
            if signals:
                print(json.dumps(found))
        for file in ("weights.safetensors", "metrics.jsonl", "model.json"):
            assert (out / file).read_bytes() == (whole / file).read_bytes(), f"{file} differs"
        parts = [folder / "certify" / "test" / "part-0-of-1.tsv" for folder in (out, whole)]
        assert rows(parts[0]) == rows(parts[1]), "certificates differ"
        starts = (out / "environment.jsonl").read_text().count("\n")
    print(f"weights, metrics and {given.images} certificates are identical; training went on {starts - 1} times")


if __name__ == "__main__":
    main()
