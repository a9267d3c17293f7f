"""How fast pictures of ImageNet's size become batches, per core, and what one GPU needs for training ResNet-50.

    python benchmarks/input.py [--count 1000] [--rounds 5] [--json results/input.json]

Synthetic JPEG files (benchmarks/jpegs.py) are decoded as `smoothcert train` does it, by threads of one process and by
worker processes, on one core and on all: pictures per second, the best of all rounds, and the processor time of one
picture, the least of all rounds, which other work on the machine disturbs less; its inverse is called the rate of a
core. Both are without the start of the workers, which is a line of its own. *train* cuts a random part out and brings
it to 224 x 224, *test* brings the shorter side to 256 and cuts the centre out.

Beside that: what JPEG's decoding at half scale would save, how long the headers of tar shards take, what is sent to a
worker, how fast data is hashed. On a machine with a CUDA device, training steps of ResNet-50 (Gaussian, batch 256,
images on the device) tell how many pictures per second one GPU takes.
"""

import argparse
import io
import json
import os
import pickle
import platform
import shlex
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path, PurePath

import jpegs
import numpy as np
import PIL
import torch
from PIL import Image, features

import smoothcert
from smoothcert.data import Batches, Dataset, ImageFolder, load_dataset
from smoothcert.data.decoding import Wanted, cores, decoded
from smoothcert.data.preparation import random_part
from smoothcert.kernels.trainable import products, trainable
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.models import build_model
from smoothcert.runs.environment import commit
from smoothcert.training.ranks import Ranks
from smoothcert.training.steps import Stepper

BATCH, IMAGENET = 64, 1_281_167
MEMBERS = 20_000  # samples of the shard whose headers are timed


def start(data):
    """Seconds of one worker from nothing to its first picture: wall clock, and of processors."""
    found = []
    for _ in range(5):
        before, started = _processor(), time.perf_counter()
        list(decoded(data, [Wanted([0])], 1, 1))
        found.append((time.perf_counter() - started, _processor() - before))
    seconds, processor = map(min, zip(*found, strict=True))
    return {"seconds": seconds, "processor_seconds": processor}


def _processor():
    """Seconds of processors that this process and its finished children have had."""
    return sum(os.times()[:4])


def decoding(data, train, workers):
    """Pictures per second, and seconds of processors per picture."""
    order = np.random.default_rng(0).permutation(len(data)).tolist()
    batches = [order[k : k + BATCH] for k in range(0, len(order), BATCH)]
    wanted = [Wanted(batch, batch if train else None) for batch in batches]
    before, done = _processor(), []
    for _ in decoded(data, wanted, BATCH, workers):
        done.append(time.perf_counter())
    return (len(order) - BATCH) / (done[-1] - done[0]), (_processor() - before) / len(order)


def table(root, rounds):
    sets = {
        "folder": ImageFolder(root / "folder", split="train"),
        "tar": load_dataset(f"tar:{root / 'tar'},size=224,resize=256", "train"),
    }
    available, rows, begun = os.sched_getaffinity(0), [], start(sets["tar"])
    print(
        "start of a worker: {seconds:.3f} s, of a processor {processor_seconds:.3f} s".format(
            **begun
        )
    )
    for used in sorted({1, len(available)}):
        cases = [
            (place, train, way)
            for place in sets
            for train in (False, True)
            for way in ("threads", "processes")
        ]
        found = {case: [] for case in cases}
        os.sched_setaffinity(0, sorted(available)[:used])
        for number in range(rounds):
            for case in cases if number % 2 == 0 else reversed(cases):
                place, train, way = case
                found[case].append(decoding(sets[place], train, used if way == "processes" else 0))
        os.sched_setaffinity(0, available)
        for (place, train, way), times in found.items():
            rate, processor = (
                max(rate for rate, _ in times),
                min(processor for _, processor in times),
            )
            if way == "processes":
                processor -= used * begun["processor_seconds"] / len(sets[place])
            rows.append(
                {
                    "place": place,
                    "preparation": "train" if train else "test",
                    "way": way,
                    "cores": used,
                }
            )
            rows[-1] |= {
                "per_second": rate,
                "processor_ms": 1000 * processor,
                "per_second_per_core": 1 / processor,
            }
            told = f"{place:6} {rows[-1]['preparation']:5} {way:9} {used:2} cores"
            print(
                f"{told} {rate:6.0f} pictures/s, {1000 * processor:.2f} ms, {1 / processor:.0f} per core and second"
            )
    return {"start": begun, "rows": rows}


def half_scale(root, rounds):
    """What libjpeg's decoding at half scale saves, and how often a random part is large enough for it."""
    contents = [path.read_bytes() for path in sorted(root.glob("folder/*/*"))[:100]]

    def seconds(draft):
        started = time.process_time()
        for content in contents:
            picture = Image.open(io.BytesIO(content))
            if draft:
                picture.draft("RGB", (picture.width // 2, picture.height // 2))
            picture.load()
        return (time.process_time() - started) / len(contents)

    rng, parts = np.random.default_rng(0), []
    for k in range(20_000):
        *_, width, height = random_part(*jpegs.SIZES[k % len(jpegs.SIZES)], rng)
        parts.append(min(width, height) >= 2 * 224)
    full, half = (1000 * min(seconds(draft) for _ in range(rounds)) for draft in (False, True))
    return {"full_ms": full, "half_ms": half, "share_of_parts": float(np.mean(parts))}


def headers(root):
    """Seconds and bytes of memory for the headers of 100,000 samples, from a shard of small ones."""
    import tarfile

    path, content = root / "many.tar", jpegs.picture(0)
    with tarfile.open(path, "w") as tar:
        for i in range(MEMBERS):
            for ending, part in (
                ("jpg", content if i == 0 else b"x" * 600),
                ("cls", str(i % 1000).encode()),
            ):
                info = tarfile.TarInfo(f"n{i % 1000:08}_{i:08}.{ending}")
                info.size = len(part)
                tar.addfile(info, io.BytesIO(part))
    times = []
    for _ in range(3):
        started = time.process_time()
        load_dataset(f"tar:{path}")
        times.append(time.process_time() - started)
    tracemalloc.start()
    data = load_dataset(f"tar:{path}")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    scale = 100_000 / len(data)
    return {"seconds": scale * min(times), "megabytes": scale * held / 1e6}


def sending(root):
    """A folder of as many names as ImageNet has: what one batch for a worker costs, and what all names would."""
    data = ImageFolder(root / "folder")
    data.files = [
        PurePath("/data/imagenet/train", f"n{i % 1000:08}", f"n{i % 1000:08}_{i}.JPEG")
        for i in range(IMAGENET)
    ]
    data.labels = np.zeros(IMAGENET, np.int64)
    found = {}
    for name, work in (
        ("batch", lambda: data.part(range(0, 256 * 5000, 5000))),
        ("all", lambda: data),
    ):
        started = time.process_time()
        size = len(pickle.dumps(work()))
        found |= {
            f"{name}_ms": 1000 * (time.process_time() - started),
            f"{name}_kilobytes": size / 1000,
        }
    return found


def hashing(root):
    data = (
        load_dataset(f"tar:{root / 'tar'}", "train")
        if False
        else load_dataset(f"tar:{root / 'tar'},size=224", "train")
    )
    started = time.process_time()
    data.fingerprint()
    size = sum(path.stat().st_size for path in (root / "tar").iterdir())
    return {"gigabytes_per_second_per_core": size / (time.process_time() - started) / 1e9}


def training(precision, device, batch, seconds):
    """Pictures per second that training steps take, with images in the device's memory."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4 * batch, 3, 224, 224), np.uint8)
    data = Dataset("pictures", "train", images, rng.integers(0, 1000, len(images)), 1000)
    model = build_model("resnet50", 1000, "imagenet", seed=0).to(device)
    network = trainable(model, data.shape, device, precision, "auto").network
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=1e-4)
    stepper = Stepper(network, optimizer, build_method({"name": "gaussian"}), 0.5, Ranks(device))
    batches = Batches(data, batch, seed=0, device=device)
    model.train()
    with products(device, precision, "auto"):
        stepper.start_epoch(Progress(0, 90))
        for taken in batches.epoch(0):
            stepper.take(taken)
        started, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - started < seconds:
            for taken in batches.epoch(1):
                stepper.take(taken)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            steps += len(batches)
        return steps * batch / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="pictures")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of training steps, where there is a GPU"
    )
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        jpegs.write(root, options.count)
        size = sum(path.stat().st_size for path in root.glob("folder/*/*")) / options.count
        print(f"{options.count} pictures of {size / 1000:.0f} kB in the mean, {cores()} cores")
        found = {"kilobytes": size / 1000, **table(root, options.rounds)}
        for name, work in (
            ("half_scale", half_scale),
            ("headers", headers),
            ("sending", sending),
            ("hashing", hashing),
        ):
            found[name] = work(root, options.rounds) if work is half_scale else work(root)
            print(
                f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in found[name].items()),
                flush=True,
            )
    if torch.cuda.is_available():
        device = torch.device("cuda")
        found["resnet50"] = {
            one: training(one, device, 256, options.seconds) for one in ("tf32", "bfloat16")
        }
        print(f"ResNet-50 on {torch.cuda.get_device_name()}: {found['resnet50']} pictures/s")
    else:
        print("ResNet-50: not measured, since there is no CUDA device")
    if options.json is not None:
        about = {
            "command": shlex.join(["python", "benchmarks/input.py", *sys.argv[1:]]),
            "commit": commit(),
            "smoothcert": smoothcert.__version__,
            "machine": platform.processor() or platform.machine(),
            "cores": cores(),
            "pillow": PIL.__version__,
            "libjpeg_turbo": features.version("libjpeg_turbo"),
        }
        options.json.write_text(json.dumps({**about, "batch": BATCH, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
