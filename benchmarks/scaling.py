"""How long a large certification takes on 1 to 512 GPUs: a simulation of the scheduler with measured times.

    python benchmarks/scaling.py            # the table of docs/scaling.md, which lists what is assumed
    python benchmarks/scaling.py --claims   # how long a claim takes on this disk, for `--shard auto`

One driver hands out groups of images and writes their rows, as `certify --ray` does; how many images are in a
group is decided by the executor's own rule. Seconds per image are those of results/certify-h200.json, and the driver's
those of results/ray-overhead.json.
"""

import argparse
import heapq
import itertools
import json
import tempfile
import time
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import norm

from smoothcert.certification.ray_workers import group_seconds
from smoothcert.evaluation.outlook import limits_of, samples_taken
from smoothcert.published.catalogue import load_table
from smoothcert.runs.claims import Claims
from smoothcert.runs.executor import Here, Made
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.store import ResultStore, part_lock
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.stopping import Level, RadiusTests

RESULTS = Path(__file__).parents[1] / "results"
IMAGES, N0, N, SIGMA, ALPHA, RADIUS = 50_000, 100, 100_000, 0.5, 0.001, 0.5
GPUS = (1, 8, 64, 512)
START = 60.0  # seconds: imports, weights, preparation and checks; not measured on a cluster


@dataclass(frozen=True)
class Cluster:
    """What takes time beside the work itself, in seconds."""

    per_group: float  # of the driver, for handing out a group and receiving its rows
    per_row: float  # of the driver, for writing a row
    start: float  # from the arrival of a worker until it takes a group
    spread: float = 0.05  # of the speeds of workers, as a share
    slow: float = 0.02  # this share of the workers has half the speed
    life: float = float("inf")  # of a worker, on average
    notice: float = 10.0  # until the driver knows that a worker is gone
    replaced: float = 300.0  # until another one has taken its place


def simulate(
    seconds: np.ndarray, workers: int, cluster: Cluster, seed: int = 0
) -> tuple[float, float]:
    """Wall clock until all images are certified that take so many seconds on a usual worker, and the driver's share."""
    rng = np.random.default_rng(seed)
    speed = np.exp(cluster.spread * rng.standard_normal(workers)) * np.where(
        rng.random(workers) < cluster.slow, 0.5, 1
    )
    rule = Here(list)
    rule.group_seconds = group_seconds(workers)
    waiting, group, done = deque(range(len(seconds))), 1, 0
    driver = busy = 0.0  # until when the driver is occupied, and for how long it was
    order, events = itertools.count(), []  # (time, order, kind, worker, images)
    queue = [
        deque() for _ in range(workers)
    ]  # (when they arrive, images): one group waits while another is made
    until, idle = np.zeros(workers), set()  # when a worker will be lost; those without work

    def give(now, worker):
        nonlocal driver, busy
        if waiting:
            driver, busy = max(driver, now) + cluster.per_group, busy + cluster.per_group
            queue[worker].append(
                (driver, [waiting.popleft() for _ in range(min(group, len(waiting)))])
            )

    def begin(now, worker):
        if not queue[worker]:
            idle.add(worker)
            return
        idle.discard(worker)
        arrives, images = queue[worker].popleft()
        ends = max(now, arrives) + float(seconds[images].sum()) / speed[worker]
        if ends <= until[worker]:
            heapq.heappush(events, (ends, next(order), "made", worker, images))
            return
        lost = images + [image for _, others in queue[worker] for image in others]
        queue[worker].clear()
        heapq.heappush(events, (until[worker] + cluster.notice, next(order), "lost", worker, lost))
        heapq.heappush(
            events,
            (until[worker] + cluster.replaced + cluster.start, next(order), "joins", worker, []),
        )

    for worker in range(workers):
        heapq.heappush(events, (cluster.start, next(order), "joins", worker, []))
    while done < len(seconds):
        now, _, kind, worker, images = heapq.heappop(events)
        if kind == "made":
            spent = cluster.per_row * len(images)
            driver, busy, done = max(driver, now) + spent, busy + spent, done + len(images)
            group = rule.next_group(Made(images, [], float(seconds[images].sum()) / speed[worker]))
            begin(now, worker)
            give(now, worker)
        elif kind == "joins":
            until[worker] = now + (
                rng.exponential(cluster.life) if np.isfinite(cluster.life) else np.inf
            )
            idle.add(worker)
            give(now, worker)
        else:
            waiting.extendleft(reversed(images))
        for one in (
            sorted(idle) if waiting or kind != "made" else [worker] if worker in idle else []
        ):
            if not queue[one]:
                give(now, one)
            begin(now, one)
    return max(now, driver), busy / max(now, driver)


def images_with_radius(rng: np.random.Generator) -> np.ndarray:
    """Samples that `certify --radius 0.5 --skip-wrong` takes of each image, if shares are as published for ImageNet.

    Radii are spread evenly between the published ones. Of the images that are not certified at radius 0, half are
    taken as wrong, and half as right by a share between 40 and 50 %: nothing is published about them.
    """
    table = load_table("smoothmix-supplement/table-7")
    row = next(row for row in table.rows if row.recipe == f"imagenet/gaussian-{SIGMA:.2f}")
    printed = [value for value in row.printed if value.r is not None and value.value]
    # 0 beyond the largest radius that n allows
    largest = limits_of(SIGMA, N, ALPHA, law_named("gaussian")).largest_radius
    radii = np.array([*(value.r for value in printed), largest])
    accuracy = np.array([*(value.value for value in printed), 0.0])
    rank = rng.random(IMAGES)
    radius = np.interp(-rank, -accuracy, radii)  # the larger the rank, the smaller the radius
    shares = np.where(rank < accuracy[0], norm.cdf(radius / SIGMA), rng.uniform(0.4, 0.5, IMAGES))
    wrong = rank > (1 + accuracy[0]) / 2
    test = RadiusTests((RADIUS,), Level(law_named("gaussian"), SIGMA, N, ALPHA))
    # of images with nearly the same share one is simulated
    different = np.unique(shares.round(3))
    taken = dict(zip(different, samples_taken(test, different, rng), strict=True))
    return (
        np.array(
            [0 if w else taken[share] for w, share in zip(wrong, shares.round(3), strict=True)]
        )
        + N0
    )


def vit_multiply_adds(width: int) -> int:
    """Of a vision transformer of 12 blocks on 14 x 14 patches of 16 x 16 pixels and a class token."""
    patches, tokens = 14**2, 14**2 + 1
    block = 12 * width**2 * tokens + 2 * tokens**2 * width  # linear layers, then attention
    return 3 * 16**2 * width * patches + 12 * block


def in_words(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"


def print_claims() -> None:
    """With as many parts and claims as there would be processes, half of the rows done, none of the others at work."""
    columns = ("idx", "correct", "time")
    print("| processes | one claim |\n|---:|---:|")
    for processes in GPUS:
        with tempfile.TemporaryDirectory() as folder:
            store = ResultStore(Path(folder), columns)
            store.claim(Manifest({"max": IMAGES}, IMAGES, {}))
            for process in range(1, processes):
                rows = "".join(
                    f"{index}\t1\t0:00:01\n" for index in range(process, IMAGES // 2, processes)
                )
                path = store.folder / f"part-auto-other-{process}.tsv"
                path.write_text("\t".join(columns) + "\n" + rows)
                part_lock(path).with_suffix(".claims").write_text(json.dumps([IMAGES - process]))
            with (
                store.writer(None) as part,
                Claims(part.lock, columns, store.keys, range(IMAGES)) as claims,
            ):
                claims.take(1, 60.0)  # reads all rows, once
                started = time.perf_counter()
                for _ in range(20):
                    claims.take(1, 60.0)
                print(f"| {processes} | {50 * (time.perf_counter() - started):.1f} ms |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--claims", action="store_true")
    if parser.parse_args().claims:
        print_claims()
        return
    measured = {
        row["network"]: row
        for row in json.loads((RESULTS / "certify-h200.json").read_text())["networks"]
    }
    overhead = json.loads((RESULTS / "ray-overhead.json").read_text())
    per_sample = {
        "ResNet-50": measured["resnet50"]["seconds"] / measured["resnet50"]["n"],
        "ViT-S/16": measured["networks.VisionTransformer"]["seconds"]
        / measured["networks.VisionTransformer"]["n"],
    }
    per_sample["ViT-B/16 (estimate)"] = (
        per_sample["ViT-S/16"] * vit_multiply_adds(768) / vit_multiply_adds(384)
    )
    samples = {
        "n = 100,000": np.full(IMAGES, N0 + N),
        "--radius 0.5": images_with_radius(np.random.default_rng(0)),
    }
    steady = Cluster(overhead["seconds_per_group"], overhead["seconds_per_row"], START)
    spot = replace(steady, life=4 * 3600.0)
    columns = [
        "1 GPU",
        *(f"{count} GPUs" for count in GPUS[1:]),
        "8, spot",
        "busy at 512",
        "driver at 512",
    ]
    print(f"| network, procedure | samples per image | {' | '.join(columns)} |")
    print("|---|" + "---:|" * (1 + len(columns)))
    for network, seconds in per_sample.items():
        for what, taken in samples.items():
            times = [simulate(seconds * taken, count, steady) for count in GPUS]
            cells = [in_words(time) for time, _ in [*times, simulate(seconds * taken, 8, spot)]]
            longest, driver = times[-1]
            busy = seconds * taken.sum() / GPUS[-1] / longest
            cells += [f"{100 * busy:.0f} %", f"{100 * driver:.0f} %"]
            print(f"| {network}, {what} | {taken.mean():,.0f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
