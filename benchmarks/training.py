"""Seconds per epoch of training, beside those of the official research code and of training without kernels.

    python benchmarks/training.py [--recipes mnist/gaussian-1.00 ...] [--precision tf32 bfloat16] [--json FILE]

The steps are those of `smoothcert train`, on data of the right size and random content (speed does not depend on it):
after an epoch's plain and captured first steps, steps are timed for a while and scaled to the epoch. Official figures:
SmoothMix's and CAT-RS's published code, unchanged but for imports, on one NVIDIA H200 with PyTorch 2.11. Ratios mean
something on such a GPU only. `generic` is ours with ``--kernels off``, attack steps included; it is blank where Triton
runs no kernel.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import torch

import smoothcert
from smoothcert.data import Batches, Dataset
from smoothcert.devices.launching import runs_triton
from smoothcert.kernels.trainable import products, trainable
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.models import build_model
from smoothcert.recipes import load_recipe
from smoothcert.runs.environment import commit
from smoothcert.training.ranks import Ranks
from smoothcert.training.steps import Stepper

OFFICIAL = {
    "mnist/gaussian-1.00": 1.68,
    "mnist/stability-1.00": 1.62,
    "mnist/consistency-1.00": 2.88,
    "mnist/macer-1.00": 5.43,
    "mnist/smoothadv-1.00": 30.4,
    "mnist/smoothmix-1.00-onestep": 31.0,
    "mnist/catrs-1.00": 18.6,
    "cifar10/gaussian-0.50": 13.0,
    "cifar10/smoothmix-0.50": 143.0,
    "cifar10/catrs-0.50": 202.0,
}
SIZES = {"mnist": ((1, 28, 28), 60_000), "cifar10": ((3, 32, 32), 50_000)}


def seconds_per_epoch(name, precision, kernels, device, seconds):
    config = load_recipe(name).config
    shape, size = SIZES[config.dataset]
    rng = np.random.default_rng(0)
    data = Dataset(
        config.dataset,
        "train",
        rng.integers(0, 256, (size, *shape), np.uint8),
        rng.integers(0, 10, size),
        10,
    )
    method = build_method(config.method)
    votes = rng.integers(1, 100, (size, 10)) if method.uses_soft_labels else None
    model = build_model(config.model, 10, config.normalisation, seed=0).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), config.lr, config.momentum, weight_decay=config.weight_decay
    )
    batches = Batches(
        data, config.batch_size, seed=0, device=device, augment=config.augment, soft_labels=votes
    )
    network = trainable(model, data.shape, device, precision, kernels).network
    stepper = Stepper(network, optimizer, method, config.sigma, Ranks(device))
    model.train()
    with products(device, precision, kernels):
        stepper.start_epoch(Progress(20, config.epochs))  # after all warm-ups
        steps = iter(batches.epoch(0))
        for _ in range(3):
            stepper.take(next(steps))
        wait(device)
        started, taken = time.perf_counter(), 0
        for batch in steps:
            stepper.take(batch)
            taken += 1
            if taken % 4 == 0:
                wait(device)
                if time.perf_counter() - started > seconds:
                    break
        wait(device)
        return (time.perf_counter() - started) / taken * len(batches), taken


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", nargs="+", choices=OFFICIAL, default=list(OFFICIAL))
    parser.add_argument("--precision", nargs="+", default=["tf32"])
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed steps for each row")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    for name in options.recipes:
        for precision in options.precision:
            ours, steps = seconds_per_epoch(name, precision, "auto", device, options.seconds)
            generic = None
            if runs_triton(device):
                generic, _ = seconds_per_epoch(name, precision, "off", device, options.seconds)
            rows.append(
                {"recipe": name, "precision": precision, "seconds": ours, "steps_timed": steps}
            )
            rows[-1] |= {
                "generic_seconds": generic,
                "official_seconds": OFFICIAL[name],
                "ratio": OFFICIAL[name] / ours,
            }
            ratio = f"official {OFFICIAL[name]:6.1f} s   {OFFICIAL[name] / ours:5.1f}x"
            shown = "" if generic is None else f"{generic:.3f} s"
            print(
                f"{name:30} {precision:9} {ours:8.3f} s   generic {shown:>10}   {ratio}", flush=True
            )
    if options.json is not None:
        device_name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
        command = shlex.join(["python", *sys.argv])
        about = {
            "commit": commit(),
            "command": command,
            "device": device_name,
            "torch": torch.__version__,
        }
        record = {**about, "smoothcert": smoothcert.__version__, "rows": rows}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
