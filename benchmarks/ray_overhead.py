"""What one driver of `certify --ray` can do, with workers that make rows in no time.

    python benchmarks/ray_overhead.py --shape 3 224 224 --json results/ray-overhead.json

For groups of one row and of many, it prints the processor time that the loop of the driver takes, and the rows per
second at which it would be busy all the time. Each row comes with its image, which the driver sends. Then it prints
the two numbers, per group and per row, that fit these times best.
"""

import argparse
import functools
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.certification.ray_cluster import import_ray
from smoothcert.certification.ray_workers import RayWorkers
from smoothcert.runs.environment import environment
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore

ROW = {
    "label": 0,
    "predict": 0,
    "radius": 0.5,
    "correct": 1,
    "n0": 100,
    "n": 100_000,
    "counts0": "0:100",
}
ROW |= {
    "counts": "0:99000,1:1000",
    "p_lower": 0.98,
    "multiclass_radius": 0.4,
    "noise": "exact",
    "seed": 1,
}


class Instant:
    """In the place of a certifier."""

    identity, rechecked = {"made": "at once"}, (0, 0)

    def __init__(self, device):
        import torch

        self.environment = environment(torch.device(device))

    def rows(self, indices, images, labels):
        return [{**ROW, "idx": index} for index in indices]


class OfOneSize(RayWorkers):
    size = 1

    def next_group(self, made, claiming=0.0):
        return self.size


def measure(workers, size, rows):
    workers.size = size
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder))
        store.claim(Manifest(workers.identity, rows, {}))
        started, used, mine = time.perf_counter(), time.process_time(), time.thread_time()
        store.complete(range(rows), Selection(), workers, what="", unit="rows", note="", quiet=True)
        mine, used = time.thread_time() - mine, time.process_time() - used
        seconds = time.perf_counter() - started
    groups = -(-rows // size)
    shown = f"{1e3 * mine / groups:.2f} ms per group of the driver's loop, {1e3 * used / groups:.2f} of all its threads"
    print(
        f"groups of {size:2}: {shown}; at most {groups / mine:.0f} groups/s, {rows / mine:.0f} rows/s",
        flush=True,
    )
    return {
        "size": size,
        "groups": groups,
        "rows": rows,
        "loop": mine,
        "threads": used,
        "seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--shape", type=int, nargs=3, default=[3, 32, 32])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ray = import_ray(alone=True)
    ray.init(
        address="local",
        num_cpus=options.workers,
        logging_level="ERROR",
        _node_ip_address="127.0.0.1",
        include_dashboard=False,
    )
    image = np.zeros(options.shape, np.uint8)

    def read(names):
        return names, [image.copy() for _ in names], [0] * len(names)

    with OfOneSize(functools.partial(Instant), read, "cpu", None) as workers:
        while int(workers.note.split()[0]) < options.workers:
            workers.collect()
        print(
            f"{workers.note}, images of {image.nbytes:,} bytes, {options.rows} rows, Ray {ray.__version__}"
        )
        measure(workers, 1, 200)  # warms up
        runs = [measure(workers, size, min(options.rows, 1000 * size)) for size in (1, 4, 16, 64)]
    counts, loops = (
        np.array([[run["groups"], run["rows"]] for run in runs]),
        np.array([run["loop"] for run in runs]),
    )
    weights = 1 / loops  # every size counts alike
    per_group, per_row = np.linalg.lstsq(counts * weights[:, None], loops * weights, rcond=None)[0]
    print(
        f"the loop takes about {1e3 * per_group:.2f} ms per group and {1e3 * per_row:.3f} ms per row"
    )
    if options.json:
        versions = {
            name: workers.environment[name] for name in ("smoothcert", "commit", "torch", "python")
        }
        about = {"command": "python " + " ".join(sys.argv), "ray": ray.__version__, **versions}
        found = {
            "seconds_per_group": per_group,
            "seconds_per_row": per_row,
            "image_bytes": image.nbytes,
            "runs": runs,
        }
        options.json.write_text(json.dumps({**found, "environment": about}, indent=2) + "\n")


if __name__ == "__main__":
    main()
