"""Samples a second on a CPU, against the published code's loop: ``python benchmarks/certify_cpu.py [rounds]``.

One image, random weights (speed does not depend on them). Both sides take turns, and the best of all rounds counts: on
a machine that others use too, the best times are those that were disturbed least. The last column compares the sums of
all rounds, which is what one sees on such a machine.
"""

import sys
import time

import torch
from plain_certify import plain_count

from smoothcert import SmoothedClassifier
from smoothcert.models import build_model

SIGMA = 0.5
# network, normalisation, image, samples of one round
NETWORKS = [("lenet", "none", (1, 28, 28), 8_000), ("resnet20", "cifar10", (3, 32, 32), 2_000)]


def seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(name, normalisation, shape, n, precision, rounds):
    model = build_model(name, 10, normalisation, seed=0).eval()
    image = (torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 255).to(torch.uint8)
    smoothed = SmoothedClassifier(model, SIGMA, 10, precision=precision)
    sides = (
        lambda: plain_count(model, image.float() / 255, SIGMA, n, 10),
        lambda: smoothed.count(image, n, "estimation", 0),
    )
    for side in sides:
        side()  # first uses, and the choice of the batch size, are not timed
    times = [[seconds(side) for side in sides] for _ in range(rounds)]
    (plain, ours), (plain_sum, ours_sum) = (map(f, zip(*times, strict=True)) for f in (min, sum))
    print(
        f"{name:9} {precision:9} {smoothed.batch_size:5} {n / plain:10.0f} {n / ours:10.0f} "
        f"{plain / ours:7.2f} {plain_sum / ours_sum:7.2f}",
        flush=True,
    )


def main(rounds=7):
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, best of {rounds}")
    print(f"{'network':9} {'precision':9} {'batch':>5} {'plain/s':>10} {'ours/s':>10} {'ratio':>7} {'of sums':>7}")
    for network in NETWORKS:
        for precision in ("float32", "bfloat16"):
            compare(*network, precision, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
