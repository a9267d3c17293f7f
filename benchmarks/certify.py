"""How much faster certification is than the plain loop, and what kernels add to that, side by side in one run.

    python benchmarks/certify.py [--device cpu|cuda] [--networks lenet resnet20 ...] [--precision ...] [--json FILE]

Networks that are not the package's own are in networks.py.

The baseline is the field's CERTIFY (plain_certify.py): one image at a time, batches of 1,000, PyTorch's own settings,
counts on the host. Weights are random: speed does not depend on them. Each number is the median of several images,
after one that pays for compilation and first uses; baseline, generic and ours alternate. `generic` is ours with
``kernels="off"``. It is blank where nothing of the network is a kernel on that device. The floor is the
time of the network's multiplications and additions at the rate of a large matrix product, measured there and then.
"""

import argparse
import json
import platform
import shlex
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from plain_certify import plain_count
from torch.utils.flop_counter import FlopCounterMode

import smoothcert
from smoothcert import CertifyConfig, SmoothedClassifier
from smoothcert.certification.counting import Request
from smoothcert.models import build_model
from smoothcert.runs.environment import commit

# name: (image shape, classes, normalisation, samples on CUDA, samples on a CPU)
NETWORKS = {
    "lenet": ((1, 28, 28), 10, "none", 100_000, 8_192),
    "resnet20": ((3, 32, 32), 10, "cifar10", 100_000, 2_048),
    "resnet110": ((3, 32, 32), 10, "cifar10", 100_000, 512),
    "resnet50": ((3, 224, 224), 1000, "imagenet", 10_000, 64),
    "networks.WideResNet": ((3, 32, 32), 10, "cifar10", 100_000, 256),
    "networks.VisionTransformer": ((3, 224, 224), 1000, "imagenet", 10_000, 64),
}
SIGMA = 0.5
SELECTION = 100  # samples that choose the class, as in the literature


def calibrated(model, shape, device):
    """Random weights with BatchNorm statistics that belong to them, as after training: else activations explode."""
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for _ in range(10 if device.type == "cuda" else 3):
            model.train()(torch.rand(16, *shape, device=device, generator=generator))
    return model.eval()


def operations(model, shape, device):
    """Multiplications and additions of one forward."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, *shape, device=device))
    return counter.get_total_flops()


def operations_a_second(device, precision):
    """Of a large matrix product, which nothing on the device beats by much."""
    size, dtype = 8192 if device.type == "cuda" else 2048, getattr(torch, precision, torch.float32)
    a, times = torch.randn(size, size, device=device, dtype=dtype), []
    for _ in range(6):
        started = time.perf_counter()
        float((a @ a)[0, 0])  # waits for it
        times.append(time.perf_counter() - started)
    return 2 * size**3 / min(times)


def measure(name, device, rounds, images, precision):
    shape, classes, normalisation, *sizes = NETWORKS[name]
    n = sizes[device.type == "cpu"]
    model = calibrated(build_model(name, classes, normalisation, seed=0).to(device), shape, device)
    rng = np.random.default_rng(0)
    pictures = [
        torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8)) for _ in range(images)
    ]
    configs = (
        CertifyConfig(SIGMA, n0=SELECTION, n=n, precision=precision, kernels=kernels)
        for kernels in ("auto", "off")
    )
    ours, generic = (SmoothedClassifier(model, config, device=device) for config in configs)
    prepared = ours.prepare(pictures[0])
    compared = [ours] if generic.prepare(pictures[0]).steps == prepared.steps else [ours, generic]
    for smoothed in compared:
        few = [Request(i, i, "selection", 0, min(n, 2_000)) for i in range(images)]
        smoothed.count_many(pictures, few)
    plain_count(model, pictures[0].to(device).float() / 255, SIGMA, min(n, 2_000), classes)
    plain, times = [], {ours: [], generic: []}
    for _ in range(rounds):
        started = time.perf_counter()
        plain_count(model, pictures[0].to(device).float() / 255, SIGMA, SELECTION + n, classes)
        plain.append(time.perf_counter() - started)
        for smoothed in compared:
            started = time.perf_counter()
            smoothed.certify_many(pictures, range(images))
            times[smoothed].append((time.perf_counter() - started) / images)
    floor = (
        (SELECTION + n)
        * operations(model, shape, device)
        / operations_a_second(device, prepared.precision)
    )
    return {
        "network": name,
        "n": n,
        "baseline_seconds": statistics.median(plain),
        "generic_seconds": statistics.median(times[generic]) if times[generic] else None,
        "seconds": statistics.median(times[ours]),
        "ratio": statistics.median(plain) / statistics.median(times[ours]),
        "floor_seconds": floor,
        "precision": prepared.precision,
        "prepared": list(prepared.steps),
        "batch_size": ours.batch_size,
        "images_at_once": images,
    }


def growth(device, sizes):
    """Time and memory of one LeNet image as n grows."""
    image, rows = torch.zeros(1, 28, 28, dtype=torch.uint8), []
    for n in sizes:
        config = CertifyConfig(SIGMA, n=n)
        smoothed = SmoothedClassifier(build_model("lenet", seed=0), config, device=device)
        smoothed.count(image, 2_000, "estimation", 0)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        smoothed.certify(image)
        seconds = time.perf_counter() - started
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
        rows.append({"n": n, "seconds": seconds, "peak_bytes": peak})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    device = torch.device(options.device)
    cuda = device.type == "cuda"
    rows = []
    for name in options.networks or (list(NETWORKS) if cuda else ["lenet", "resnet20"]):
        images = (20 if name == "lenet" else 2) if cuda else 1
        rows.append(measure(name, device, options.rounds, images, options.precision))
        row = rows[-1]
        generic = "" if row["generic_seconds"] is None else f"{row['generic_seconds']:.5f} s"
        print(
            f"{name:26} n {row['n']:7}  plain {row['baseline_seconds']:9.4f} s  generic {generic:>11}  "
            f"ours {row['seconds']:9.5f} s  "
            f"{row['ratio']:6.1f}x  floor {row['floor_seconds']:.5f} s  "
            f"{row['precision']}, {', '.join(row['prepared'])}, batch {row['batch_size']}",
            flush=True,
        )
    grown = growth(device, [10_000, 100_000, 1_000_000] if cuda else [1_000, 2_000, 4_000, 8_000])
    for row in grown:
        memory = "" if row["peak_bytes"] is None else f"  {row['peak_bytes'] / 2**20:.0f} MiB"
        print(f"{'lenet':26} n {row['n']:7}  {row['seconds']:.4f} s{memory}")
    record = {
        "commit": commit(),
        "command": shlex.join(["python", *sys.argv]),
        "device": torch.cuda.get_device_name(device)
        if cuda
        else platform.processor() or platform.machine(),
        "threads": None if cuda else torch.get_num_threads(),
        "torch": torch.__version__,
        "smoothcert": smoothcert.__version__,
        "rounds": options.rounds,
        "networks": rows,
        "growth": grown,
    }
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
