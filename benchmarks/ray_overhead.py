"""What one driver of `certify --executor ray` can do, with workers that make rows in no time.

    python benchmarks/ray_overhead.py [--workers 2] [--rows 4000] [--shape 3 224 224]

For groups of one row and of many, it prints the processor time of the driver per group and per row, and the rows per
second at which it would be busy all the time. Each row comes with its image, which the driver sends.
"""

import argparse
import functools
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.certification.ray_cluster import import_ray
from smoothcert.certification.ray_workers import RayWorkers
from smoothcert.runs.environment import environment
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import Manifest, ResultStore

ROW = {"label": 0, "predict": 0, "radius": 0.5, "correct": 1, "n0": 100, "n": 100_000, "counts0": "0:100"}
ROW |= {"counts": "0:99000,1:1000", "p_lower": 0.98, "multiclass_radius": 0.4, "noise": "exact", "seed": 1}


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
    print(
        f"groups of {size:3}: {rows / seconds:7.0f} rows/s as run; of the driver's loop {1e3 * mine / groups:6.2f} ms "
        f"per group, {1e3 * mine / rows:6.3f} ms per row: at most {rows / mine:7.0f} rows/s, {groups / mine:6.0f} "
        f"groups/s; of all its threads {1e3 * used / rows:6.3f} ms per row"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--shape", type=int, nargs=3, default=[3, 32, 32])
    options = parser.parse_args()
    ray = import_ray(alone=True)
    ray.init(address="local", num_cpus=options.workers, _node_ip_address="127.0.0.1", include_dashboard=False)
    image = np.zeros(options.shape, np.uint8)

    def read(names):
        return names, [image] * len(names), [0] * len(names)

    with OfOneSize(functools.partial(Instant), read, "cpu", None) as workers:
        while int(workers.note.split()[0]) < options.workers:
            workers.collect()
        print(f"{workers.note}, images of {image.nbytes:,} bytes, {options.rows} rows, Ray {ray.__version__}")
        measure(workers, 1, 200)  # warms up
        for size in (1, 4, 16, 64):
            measure(workers, size, min(options.rows, 1000 * size))


if __name__ == "__main__":
    main()
