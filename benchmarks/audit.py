"""What the checks before certification and the audit during it cost, beside certifying without an audit.

    python benchmarks/audit.py [--device cpu|cuda] [--networks lenet resnet20 ...] [--n N] [--json FILE]

Rounds with and without the audit alternate, and the best of each counts: processor time on a CPU, time by the clock on
CUDA. Weights are random, which costs as much. `checks` is all that is done once before the first image, of which
`prepare` makes the network fast and is needed anyway.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from certify import NETWORKS, calibrated

from smoothcert import CertifyConfig, SmoothedClassifier
from smoothcert.certification import audit
from smoothcert.kernels.prepare import prepare
from smoothcert.models import build_model
from smoothcert.runs.environment import commit, environment

GROUP = 64  # images that a GPU certifies together
NEVER = 1e-300  # a share of the samples so small that none is ever chosen


def seconds(device, work):
    clock = time.process_time if device == "cpu" else time.perf_counter
    started = clock()
    work()
    return clock() - started


def measure(name, device, n, rounds):
    shape, classes, normalisation, *_ = NETWORKS[name]
    model = build_model(name, normalisation=normalisation, classes=classes, seed=0).to(device)
    calibrated(model, shape, torch.device(device))
    count = GROUP if device == "cuda" else 1
    images = list(np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8))
    example = torch.rand(16, *shape, device=device)
    found = {"checks": [], "prepare": [], "with": [], "without": []}
    rate = audit.RATE
    for _ in range(rounds):
        smoothed = SmoothedClassifier(model, CertifyConfig(0.5, seed=0, n=n))
        found["checks"].append(seconds(device, lambda now=smoothed: now.prepare(images[0])))
        settings = (model, shape, torch.device(device), "auto", "auto", example)
        found["prepare"].append(seconds(device, lambda now=settings: prepare(*now)))
        smoothed.certify_many(images, range(count))  # compilation, first batches
        for way, share in (("with", rate), ("without", NEVER)):
            audit.RATE = share
            smoothed._ready[2].audit._wait = smoothed._ready[2].audit._gap()
            found[way].append(
                seconds(device, lambda now=smoothed: now.certify_many(images, range(count), n=n))
            )
        audit.RATE = rate
    best = {key: round(min(times), 4) for key, times in found.items()}
    share = round(best["with"] / best["without"] - 1, 4)
    return {"network": name, "images": count, "n": n, "rate": rate, **best, "audit_share": share}


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
            json.dumps({"commit": commit(), **device, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
