"""Do several processes train the network that one process trains? Every method, on a CPU.

    python benchmarks/ranks.py [--ranks 2 4] [--images 230] [--epochs 2] [--json results/ranks.json]

Each method trains LeNet on images of mnist-mini by `smoothcert.fit`, in processes that torchrun starts. Batches of 50
images, and a smaller one at the end of an epoch, are cut into the method's steps and shared unevenly. Shown are the
largest difference of a weight from that of one process, relative to the largest change of a weight in training, and
the largest relative difference of an epoch's loss.

Several processes add up in another order than one does, which changes the last bits. From there a ReLU that is almost
0 may switch, or an answer change. The same network in double precision ("double") shows that this is all, since its
last bits are too small to switch anything.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.config import TrainConfig
from smoothcert.data import Dataset, load_dataset
from smoothcert.methods import build_method
from smoothcert.models.dncnn import DnCNN
from smoothcert.models.lenet import LeNet
from smoothcert.runs.environment import environment
from smoothcert.runs.folder import RunFolder
from smoothcert.training.fit import fit
from smoothcert.training.network import begin

ATTACK = {"noises": 2, "steps": 2, "warmup": 1}
WORK: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "gaussian, crop and flip": {"augment": "crop-flip"},
    "gaussian, fine-tuned": {"init_from": "start", "lr": 0.005},
    "gaussian, self-training": {"self_training": {"path": "pseudo.npz", "weight": 0.5}},
    "stability": {},
    "smoothadv": {"method": ATTACK},
    "smoothadv, ddn": {"method": {**ATTACK, "attack": "ddn"}},
    "smoothadv, stein": {"method": {**ATTACK, "attack": "stein"}},
    "macer": {"method": {"noises": 4}},
    "consistency": {},
    "consistency, attacked": {"method": {**ATTACK, "base": "smoothadv"}},
    "smoothmix": {"method": ATTACK},
    "catrs, soft labels": {
        "method": {"noises": 2, "steps": 2},
        "soft_labels": {"n": 100, "epochs": 1},
    },
    "sun, images chosen": {
        "method": {"noises": 2, "deferred": 1, "threshold": 0.05, "reweight_every": 1}
    },
    "denoiser": {
        "optimizer": "adam",
        "model_options": {"depth": 2, "width": 8, "channels": 1},
    },  # without BatchNorm
}
HERE = Path(__file__).absolute()
KINDS = {"double": ("ranks.DoubleLeNet", "ranks.DoubleDnCNN"), "single": ("lenet", "dncnn")}


class DoubleLeNet(LeNet):
    def __init__(self, classes: int = 10) -> None:
        super().__init__(classes)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.double())


class DoubleDnCNN(nn.Module):
    def __init__(self, classes: int = 0, **options: int) -> None:
        super().__init__()
        self.body = DnCNN(**options).double()

    def forward(self, x: Tensor) -> Tensor:
        denoised: Tensor = self.body(x.double())
        return denoised


def settings(name: str, kind: str, epochs: int) -> TrainConfig:
    method = name.split(",", maxsplit=1)[0]
    values = {"lr": 0.02, "batch_size": 50, "epochs": epochs, "evaluate_every": 0, **WORK[name]}
    values["method"] = {"name": method, **values.get("method", {})}
    if "init_from" in values:
        values["init_from"] = "start/single"
    return TrainConfig("mnist-mini", KINDS[kind][method == "denoiser"], 0.5, **values)


def part(images: slice) -> Dataset:
    whole = load_dataset("mnist-mini", "train")
    return Dataset("mnist-mini", "train", whole.images[images], whole.labels[images], 10)


def work(out: str, images: int, epochs: int) -> None:
    """What each process does: all trainings, one after another."""
    for kind in KINDS:
        for name in WORK:
            fit(
                settings(name, kind, epochs),
                Path(out, kind, name),
                train=part(slice(images)),
                device="cpu",
                quiet=True,
            )


def weights(run: Path) -> dict[str, Tensor]:
    state = RunFolder(run).load_state()
    assert state is not None
    return dict(state["model"])


def largest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def compare(key: str, kind: str, name: str, given: argparse.Namespace) -> dict[str, float]:
    config, train, alone = (
        settings(name, kind, given.epochs),
        part(slice(given.images)),
        Path("1", kind, name),
    )
    beginning = begin(config, build_method(config.method), train)
    beginning.start(config.model)
    moved = largest(weights(alone), dict(beginning.model.state_dict()))
    runs = (Path(key, kind, name), alone)
    losses = [[entry["loss"] for entry in RunFolder(run).records("metrics.jsonl")] for run in runs]
    off = np.abs(np.divide(*losses) - 1).max()
    return {"weights": largest(*(weights(run) for run in runs)) / moved, "losses": float(off)}


def launch(ranks: int, given: argparse.Namespace) -> None:
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(ranks),
    ]
    words += [
        str(HERE),
        "--worker",
        str(ranks),
        "--images",
        str(given.images),
        "--epochs",
        str(given.epochs),
    ]
    subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--images", type=int, default=230)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the table to this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.images, given.epochs)
        return
    torch.set_num_threads(1)
    rows, json_path = [], given.json and given.json.absolute()
    with TemporaryDirectory() as name:
        os.chdir(name)
        pseudo = part(slice(given.images, 2 * given.images))
        np.savez(
            "pseudo.npz",
            data=pseudo.images.transpose(0, 2, 3, 1),
            extrapolated_targets=pseudo.labels,
        )
        fit(
            settings("gaussian", "single", 1),
            Path("start", "single"),
            train=pseudo,
            device="cpu",
            quiet=True,
        )
        for ranks in (1, *given.ranks):
            launch(ranks, given)
        print(
            f"{'processes':24} {'':7}"
            + "".join(f"{ranks:>8} weights{'losses':>9}" for ranks in given.ranks)
        )
        for method in WORK:
            for kind in KINDS:
                found = {ranks: compare(str(ranks), kind, method, given) for ranks in given.ranks}
                rows.append({"method": method, "precision": kind, "processes": found})
                cells = (
                    f"{entry['weights']:16.1e}{entry['losses']:9.1e}" for entry in found.values()
                )
                print(f"{method:24} {kind:7}" + "".join(cells), flush=True)
    if json_path:
        made = environment(torch.device("cpu"))
        about = {key: made[key] for key in ("commit", "torch", "smoothcert", "device")}
        command = shlex.join(["python", "benchmarks/ranks.py", *sys.argv[1:]])
        json_path.write_text(
            json.dumps({**about, "command": command, "seed": 0, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
