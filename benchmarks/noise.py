"""What certification noise costs, beside the two ways in which it was drawn before, in one run.

    python benchmarks/noise.py [--device cpu|cuda] [--sigma 0.5] [--rounds 30] [--json FILE]

On a CPU: nanoseconds per value on one thread, from the key to the noisy batch in float32. *normals* are NumPy's
standard normals, scaled and rounded, whose law is only assumed; *searched* seeks a 62-bit integer per value among all
thresholds. On CUDA: milliseconds of the kernel for a batch in float16. Each number is the best of all rounds, in which
the ways alternate, since other processes can only add to a time.
"""

import argparse
import json
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np
import torch

import smoothcert
from smoothcert.config import NoiseMode
from smoothcert.noise.streams import NoisyCopies
from smoothcert.noise.thresholds import padding, thresholds
from smoothcert.runs.environment import commit
from smoothcert.statistics.laws import LAWS, law_named

SHAPES = {"MNIST": (1, 28, 28), "CIFAR": (3, 32, 32), "ImageNet": (3, 224, 224)}
BATCH = {
    "cpu": {"MNIST": 334, "CIFAR": 85, "ImageNet": 2},
    "cuda": {"MNIST": 100_000, "CIFAR": 10_000},
}


def noisy(steps, image, sigma):
    """What both ways did with their integers."""
    reach = padding(sigma)
    x = torch.from_numpy(steps).view(-1, *image.shape)
    return x.add_(image).clamp_(-255.0 * reach, 255.0 * (reach + 1)).div_(torch.tensor(255.0))


def normals(image, count, sigma):
    generator = np.random.Generator(np.random.Philox(key=1))
    steps = generator.standard_normal((count, image.numel()), dtype=np.float32)
    steps *= np.float32(255 * sigma)
    return noisy(np.round(steps, out=steps), image, sigma)


def searched(image, count, sigma):
    table = np.array(thresholds(law_named("gaussian"), sigma))
    u = np.random.Generator(np.random.Philox(key=1)).integers(0, 2**62, (count, image.numel()))
    return noisy(
        (np.searchsorted(table, u, side="right") - len(table) // 2).astype(np.float32), image, sigma
    )


def on_cpu(shape, count, sigma):
    """For each way a function that returns its time in ns per value."""
    image = torch.randint(
        0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    levels, place = image.float(), {"seed": 0, "index": 0, "stage": "estimation"}
    copies = {mode: NoisyCopies(image, sigma, mode, **place) for mode in get_args(NoiseMode)}
    works = {mode: lambda source=source: source.take(0, count) for mode, source in copies.items()}
    works["normals"] = lambda: normals(levels, count, sigma)
    works["searched"] = lambda: searched(levels, count, sigma)

    def timed(work):
        started = time.perf_counter()
        work()
        return (time.perf_counter() - started) * 1e9 / (count * image.numel())

    return {name: lambda work=work: timed(work) for name, work in works.items()}


def on_cuda(shape, count, sigma):
    from kernels import noise

    return {law: lambda law=law: noise(shape, count, law, sigma) for law in LAWS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"]
    )
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cpu, rows = options.device == "cpu", []
    unit = "ns per value" if cpu else "ms"
    for name, count in BATCH[options.device].items():
        compared = (on_cpu if cpu else on_cuda)(SHAPES[name], count, options.sigma)
        times = {way: [work()] for way, work in compared.items()}
        for number in range(options.rounds):
            for way in sorted(
                compared, reverse=number % 2 == 1
            ):  # so that none always follows the same one
                times[way].append(compared[way]())
        best = {way: min(found) for way, found in times.items()}
        rows.append({"images": name, "count": count, **best})
        print(
            f"{count} {name} images: "
            + ", ".join(f"{way} {time:.3g} {unit}" for way, time in best.items())
        )
    if options.json is not None:
        about = {
            "command": shlex.join(["python", "benchmarks/noise.py", *sys.argv[1:]]),
            "commit": commit(),
            "smoothcert": smoothcert.__version__,
            "device": platform.processor() or platform.machine()
            if cpu
            else torch.cuda.get_device_name(),
        }
        about |= {
            "torch": torch.__version__,
            "numpy": np.__version__,
            "sigma": options.sigma,
            "unit": unit,
        }
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
