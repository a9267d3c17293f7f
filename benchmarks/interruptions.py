"""Does a run that is stopped again and again end like one that is left alone? With real processes and signals.

    python benchmarks/interruptions.py --kills 50 --terms 20

`smoothcert train` and then `smoothcert certify` are started and stopped by SIGKILL or SIGTERM until all signals are
spent: one in five before the work begins, the others at a random moment of its first seconds. Then the command runs to
its end. Weights, metrics and certificates must be those of the same commands left alone.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
}  # another number of threads may round sums differently
STATUS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 128 + signal.SIGTERM}


def stop_again_and_again(
    words: list[str], signals: list[signal.Signals], grows: Path, span: float
) -> None:
    """Stop the command by each signal in turn, up to `span` seconds after the file `grows` shows that it works."""
    found: Counter[str] = Counter()
    slowest = 0.0
    for number in signals:
        before = _size(grows)
        with subprocess.Popen(
            words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            early = random.random() < 0.2
            while not early and process.poll() is None and _size(grows) <= before:
                time.sleep(0.01)
            time.sleep(0.1 + random.random() * span)
            finished = process.poll() is not None
            process.send_signal(number)
            started = time.monotonic()
            _, said = process.communicate()
            slowest = max(slowest, time.monotonic() - started)
        assert b"Traceback" not in said, said.decode()
        assert process.returncode == (0 if finished else STATUS[number]), said.decode()
        found[f"{number.name}, {'too late' if finished else 'early' if early else 'at work'}"] += 1
    if signals:
        print(
            f"{words[3]}: {dict(found)}; the slowest ended {slowest:.1f} s after its signal",
            flush=True,
        )
    subprocess.run(words, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def rows(part: Path) -> list[list[str]]:
    header, *lines = (line.split("\t") for line in part.read_text().splitlines())
    return sorted(
        [cell for name, cell in zip(header, line, strict=True) if name != "time"] for line in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument(
        "--span", type=float, default=1.0, help="seconds of work in which a signal comes"
    )
    given = parser.parse_args()
    signals = given.kills * [signal.SIGKILL] + given.terms * [signal.SIGTERM]
    command = [sys.executable, "-m", "smoothcert"]
    certify = ["--max", str(given.images), "--n", str(given.n), "--device", "cpu"]
    with TemporaryDirectory() as name:
        stopped, whole = Path(name, "stopped"), Path(name, "whole")
        for folder, several in ((stopped, signals), (whole, [])):
            random.shuffle(several)
            train = [
                "mnist-mini/gaussian-0.50",
                "--epochs",
                str(given.epochs),
                "--out",
                str(folder),
                "--device",
                "cpu",
            ]
            stop_again_and_again(
                [*command, "train", *train], several, folder / "environment.jsonl", given.span
            )
            part = folder / "certify" / "test" / "part-0-of-1.tsv"
            stop_again_and_again(
                [*command, "certify", str(folder), *certify], several, part, given.span
            )
        for file in ("weights.safetensors", "metrics.jsonl", "model.json"):
            assert (stopped / file).read_bytes() == (whole / file).read_bytes(), f"{file} differs"
        parts = [folder / "certify" / "test" / "part-0-of-1.tsv" for folder in (stopped, whole)]
        assert rows(parts[0]) == rows(parts[1]), "certificates differ"
    print(f"weights, metrics and {given.images} certificates are identical")


if __name__ == "__main__":
    main()
