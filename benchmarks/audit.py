"""What the checks before certification and the audit during it cost, beside certifying without an audit.

    python benchmarks/audit.py [--device cpu|cuda] [--networks lenet resnet20 ...] [--n N] [--json FILE]

Rounds with and without the audit alternate, and the best of each counts: processor time on a CPU, time by the clock on
CUDA. Weights are random, which costs as much. `checks` is all that is done once before the first image, of which
`prepare` makes the network fast and is needed anyway. A `fingerprint` of weights and attributes is taken three times
in each call. `first_share` is what all of that costs beside a call without it, and `later_share` for the calls after
the first. `inside` is the share of the audit's own work in a call, by the clock of its thread, which other processes
on the machine disturb least.
"""

import argparse
import contextlib
import json
import time
from pathlib import Path

import numpy as np
import torch
from certify import NETWORKS, calibrated

from smoothcert import CertifyConfig, SmoothedClassifier
from smoothcert.certification import audit
from smoothcert.certification.network import Network
from smoothcert.kernels.prepare import prepare
from smoothcert.kernels.state import state_of
from smoothcert.models import build_model
from smoothcert.runs.environment import commit, environment

GROUP = 64  # images that a GPU certifies together
FINGERPRINTS = 3  # of one call of certify_many
NEVER = 1e-300  # a share of the samples so small that none is ever chosen


def seconds(device, work):
    clock = time.process_time if device == "cpu" else time.perf_counter
    started = clock()
    work()
    return clock() - started


@contextlib.contextmanager
def watched():
    """The processor time of the audit's own work, piece by piece: of `answer` all but its forward, and of `finish`."""
    places = (Network, "answer", 1), (Network, "forward", -1), (audit.Audit, "finish", 1)
    originals, spent = [getattr(kind, name) for kind, name, _ in places], []

    def timed(work, sign):
        def run(*args):
            started = time.thread_time()
            try:
                return work(*args)
            finally:
                spent.append(sign * (time.thread_time() - started))

        return run

    for (kind, name, sign), work in zip(places, originals, strict=True):
        setattr(kind, name, timed(work, sign))
    try:
        yield spent
    finally:
        for (kind, name, _), work in zip(places, originals, strict=True):
            setattr(kind, name, work)


def measure(name, device, n, rounds):
    shape, classes, normalisation, *_ = NETWORKS[name]
    model = build_model(name, normalisation=normalisation, classes=classes, seed=0).to(device)
    calibrated(model, shape, torch.device(device))
    count = GROUP if device == "cuda" else 1
    images = list(np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8))
    example = torch.rand(16, *shape, device=device)
    found = {
        "checks": [],
        "prepare": [],
        "fingerprint": [],
        "with": [],
        "without": [],
        "inside": [],
    }
    rate = audit.RATE
    for _ in range(rounds):
        smoothed = SmoothedClassifier(model, CertifyConfig(0.5, seed=0, n=n))
        found["checks"].append(seconds(device, lambda now=smoothed: now.prepare(images[0])))
        settings = (model, shape, torch.device(device), "auto", "auto", example)
        found["prepare"].append(seconds(device, lambda now=settings: prepare(*now)))
        found["fingerprint"].append(seconds(device, lambda: state_of(model)))
        smoothed.certify_many(images, range(count))  # compilation, first batches
        for way, share in (("with", rate), ("without", NEVER)):
            audit.RATE = share
            smoothed._ready[2].audit._wait = smoothed._ready[2].audit._gap()
            with watched() as spent:
                found[way].append(
                    seconds(device, lambda now=smoothed: now.certify_many(images, range(count)))
                )
            if way == "with":
                found["inside"].append(sum(spent) / found[way][-1])
        audit.RATE = rate
    inside = round(float(np.median(found.pop("inside"))), 4)
    best = {key: round(min(times), 4) for key, times in found.items()}
    bare = best["without"] - FINGERPRINTS * best["fingerprint"]
    first = best["checks"] - best["prepare"] + best["with"]
    shares = {
        "first_share": round(first / bare - 1, 4),
        "later_share": round(best["with"] / bare - 1, 4),
    }
    return {
        "network": name,
        "images": count,
        "n": n,
        "rounds": rounds,
        "rate": rate,
        "inside": inside,
        **best,
        **shares,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="+", default=["lenet", "resnet20"])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [measure(name, args.device, args.n, args.rounds) for name in args.networks]
    for row in rows:
        print(row)
    if args.json:
        device = environment(torch.device(args.device))
        args.json.write_text(
            json.dumps(
                {"commit": commit(), **device, "threads": torch.get_num_threads(), "rows": rows},
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
