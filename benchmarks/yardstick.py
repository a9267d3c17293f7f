"""What smoothcert answers today, beside what it answered when the record was made.

    make yardstick                                # also installs the commit to compare times with
    python benchmarks/yardstick.py --only losses  # some of its questions
    python benchmarks/yardstick.py --renew        # after a change that is meant: a new record

The record, yardstick.json, holds questions with their answers: printed tables, rows of packs,
certificates, integers of noise, contents of batches, losses, recipes and refusals. To add a
question, give it the answer null. Whole numbers and texts must be equal, and floats within a
tolerance, since CPUs round differently. Of a refusal count the class of the error, the exit status,
whether it names what is wrong, and which files it wrote, never its words. Processor times stand
beside those of the commit in .yardstick/, with an environment of its own, and decide nothing.

The authors' logs are found by SMOOTHCERT_PUBLISHED_LOGS, as in the tests.
"""

import argparse
import contextlib
import io
import json
import math
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from glob import glob
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import smoothcert
from smoothcert import cli
from smoothcert.data.batches import Batch, Batches
from smoothcert.methods import build_method
from smoothcert.methods.base import Progress
from smoothcert.noise.streams import NoisyCopies
from smoothcert.recipes import recipe_names
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.procedure import SPLIT, Procedure
from smoothcert.statistics.procedure import certificates as certified

ROOT = Path(__file__).parent.parent
RECORD = Path(__file__).with_suffix(".json")
LOGS = Path(os.environ.get("SMOOTHCERT_PUBLISHED_LOGS", os.devnull), "data")
RENAMED = {
    "recipes": "list recipes",
    "tables": "list tables",
    "--radii": "--radius",
    "--dataset": "--data",
    "soft-labels": "train --soft-labels-only",
}
"""Words of recorded command lines that are other words today, as {"recipes": "list recipes"}."""

TIMED = {
    "help": "--help",
    "list of recipes": "recipes",
    "report on 20 logs": "report logs/*.tsv --html page.html",
    "certify 4 images": "certify run --max 4 --n 10000 --batch-size 128 --device cpu --name by{}",
}


def words(line, renamed=RENAMED):
    """A command line as it is typed today, with the files that its patterns match."""
    typed = [now for word in shlex.split(line) for now in renamed.get(word, word).split()]
    return [file for word in typed for file in sorted(glob(word, recursive=True)) or [word]]


def asked(line):
    """The exit status of a command in this process, what it prints, and the error that ended it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            cli.main(words(line))
        except SystemExit as end:
            return end.code or 0, printed.getvalue(), end.__context__
        except Exception as error:
            return 1, f"{printed.getvalue()}{error}", error
    return 0, printed.getvalue(), None


def done(line):
    """What a command prints that does its work."""
    status, printed, _ = asked(line)
    assert status == 0, f"{line}: {printed}"
    return printed


def furnish(python, renamed=RENAMED):
    """What questions are about, in this folder: pictures, logs, and a run with certificates."""
    rng = np.random.default_rng(0)
    for place in ("pictures/train/ant", "pictures/train/bee", "logs"):
        Path(place).mkdir(parents=True)
    for picture in range(12):
        values = rng.integers(0, 256, (40, 36 + picture, 3), np.uint8)
        Image.fromarray(values).save(f"pictures/train/{('ant', 'bee')[picture % 2]}/{picture}.png")
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    for index, radius in enumerate(rng.uniform(0, 2, 10_000)):
        lines.append(f"{index}\t1\t{index % 9 > 0:d}\t{radius:.3f}\t{index % 9 > 0:d}\t0:00:01")
    for log in range(20):
        Path(f"logs/run{log:02}_noise_0.50.tsv").write_text("\n".join(lines))
    for line in (
        "train mnist-mini/gaussian-0.50 --epochs 1 --out run",
        "certify run --max 6 --n 1000",
    ):
        seconds([python, "-m", "smoothcert", *words(f"{line} --device cpu", renamed)])


def tables(line):
    """The lines that a report writes of the authors' logs, to the digit."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(LOGS):
        done(f"{line} --csv {place}/table.csv")
        printed = [file.read_text() for file in sorted(Path(place).iterdir())]
        return "".join(printed).splitlines()


def packs(name):
    """The verdict on a pack, and a hash of what was counted for each image and of its radius."""
    (verdict,) = json.loads(done(f"verify {ROOT}/results/{name} --json"))["stores"]
    with tempfile.TemporaryDirectory() as place:
        done(f"unpack {ROOT}/results/{name} --out {place}/run")
        (found,) = smoothcert.read_results(f"{place}/run")
    columns = found.idx, found.label, found.predict, found.counts0, found.counts, found.radius
    rows = [" ".join(map(str, cells)) for cells in zip(*columns, strict=True)]
    return [verdict["verdict"], len(rows), rows[0], sha256("\n".join(rows).encode()).hexdigest()]


def certificates(question):
    """Of "[counts0, counts, sigma, alpha, split, slack, law]": what the votes on an image prove."""
    counts0, counts, sigma, alpha, split, slack, law = json.loads(question)
    counted = np.array([counts0]), np.array([counts])
    assert split == SPLIT
    n0, n = (int(count.sum()) for count in counted)
    procedure = Procedure(law_named(law), sigma, n0, n, alpha, slack)
    path = counted[1][:, [counted[0].argmax()]]
    (found,) = certified(procedure, *counted, path)
    return [found.predict, found.radius, found.p_lower, found.multiclass_radius]


def noise(name):
    """Of "mode sigma stage seed index": the integers that are added to an image."""
    mode, sigma, stage, seed, index = name.split()
    image, place = torch.zeros(1, 10, 10).byte(), {"seed": int(seed), "index": int(index)}
    copies = NoisyCopies(image, float(sigma), mode, stage=stage, **place)
    drawn = (copies.take(0, 50) * 255).round().int().numpy()
    return {"first": drawn[0, 0, 0].tolist(), "hash": sha256(drawn.astype("<i4")).hexdigest()}


def batches(name):
    """Of "augmentation, rank of ranks": each step's size, images, and sums of their grey values."""
    augment, rank, ranks = re.fullmatch(r"(\S+), (\d) of (\d)", name).groups()
    spec = "folder:pictures,size=32" if augment == "imagenet" else "mnist-mini"
    data = smoothcert.load_dataset(spec, "train")
    share = {"chunks": 2, "rank": int(rank), "world_size": int(ranks)}
    made = Batches(data, -(-len(data) // 3), seed=3, augment=augment, **share)
    found = []
    for batch in (batch for epoch in (0, 1) for batch in made.epoch(epoch)):
        grey = (batch.images * 255).round().long().flatten(1).numpy()
        sums = grey @ np.arange(1, grey.shape[1] + 1)
        found.append([len(sums), *batch.index[:3].tolist(), *sums[:3].tolist(), int(sums.sum())])
    return found


def losses(name):
    """Of "settings at epoch": the loss of a small network in float64, and slopes of its weights."""

    class InFloat64(Batch):
        def draw(self, *about, **more):
            return super().draw(*about, **more).double()

    settings, epoch = name.rsplit(" at ", 1)
    rng = np.random.default_rng(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    denoiser = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.Unflatten(1, (1, 4, 4))).double()
    for weight in [*network.parameters(), *denoiser.parameters()]:
        weight.data = torch.from_numpy(rng.normal(0, 0.5, weight.shape))
    images = torch.from_numpy(rng.integers(0, 256, (6, 1, 4, 4)) / 255)
    labels = network(images).argmax(1) * torch.tensor([1, 1, 1, 1, 1, 0])  # most are its answers
    soft = torch.from_numpy(rng.dirichlet([0.3] * 3, 6))
    batch = InFloat64(images, labels, torch.arange(6), torch.Generator().manual_seed(5), soft)
    method = build_method(json.loads(settings)).equipped(lambda run: network)
    trained = denoiser if method.denoises else network
    loss = method.loss(trained, batch, 0.3, Progress(int(epoch), 90)).total
    loss.backward()
    slopes = [w.grad.numpy() * rng.normal(0, 1, w.shape) for w in trained.parameters()]
    return [loss.item(), *(slope.sum().item() for slope in slopes)]


def recipes(_):
    """What each recipe sets that is not as in "usual"."""
    usual = asdict(smoothcert.TrainConfig("mnist", "lenet", 0.5, {"name": "gaussian"}))
    configs = {name: asdict(smoothcert.load_recipe(name).config) for name in recipe_names()}
    own = {name: {k: v for k, v in all.items() if v != usual[k]} for name, all in configs.items()}
    return {"usual": usual, **own}


def refusals(question):
    """Of "thing <- command | file | old | new": what comes of it, after that edit if any."""
    thing, line = question.split(" <- ")
    line, *edit = line.split(" | ")
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(".", place, dirs_exist_ok=True)
        with contextlib.chdir(place):
            if edit:
                file, old, new = edit
                text = Path(file).read_text() if old else ""
                assert old in text, f"{question}: {file} has no {old}"
                Path(file).write_text(text.replace(old, new))
            before = files()
            status, printed, error = asked(line)
            wrote = sorted(str(path) for path, at in files().items() if before.get(path) != at)
    kind = type(error).__name__ if error else ""
    return {"error": kind, "status": status, "named": thing in printed, "wrote": wrote}


def files():
    return {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}


KINDS = tables, packs, certificates, noise, batches, losses, recipes, refusals
KINDS = {kind.__name__: kind for kind in KINDS}


def differences(recorded, found, place):
    """Each place where two answers are not the same."""
    floats = isinstance(recorded, float) and isinstance(found, float)
    about = {"rel_tol": 1e-5, "abs_tol": 1e-6}  # random floats have other last bits elsewhere
    if isinstance(recorded, list) and isinstance(found, list):
        recorded, found = dict(enumerate(recorded)), dict(enumerate(found))
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in recorded | found:
            yield from differences(recorded.get(key), found.get(key), f"{place}: {key}")
    elif recorded != found and not (floats and math.isclose(recorded, found, **about)):
        yield f"{place}: {json.dumps(recorded)} in the record, {json.dumps(found)} now"


def as_text(value, indent="\n"):
    """JSON in which a line holds what fits into it."""
    flat, inner = json.dumps(value), f"{indent} "
    if not isinstance(value, dict | list) or (indent != "\n" and len(indent + flat) < 95):
        return flat
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {as_text(entry, inner)}" for key, entry in value.items()]
    else:
        lines = [as_text(entry, inner) for entry in value]
    return flat[0] + inner + f",{inner}".join(lines) + indent + flat[-1]


def seconds(command):
    """Processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def times():
    """The least processor time of commands in some rounds, beside that of the base."""
    if not (python := ROOT / ".yardstick/.venv/bin/python").exists():
        return print(f"times: not compared, for there is no {python}")
    sides = (sys.executable, RENAMED, Path("times/now")), (python, {}, Path("times/then"))
    for python, renamed, place in sides:
        place.mkdir(parents=True)
        with contextlib.chdir(place):
            furnish(python, renamed)
    for name, line in TIMED.items():
        least = {place: math.inf for *_, place in sides}
        for turn in range(5):
            for python, renamed, place in sides:
                with contextlib.chdir(place):
                    typed = [python, "-m", "smoothcert", *words(line.format(turn), renamed)]
                    least[place] = min(least[place], seconds(typed))
        now, then = least.values()
        print(f"times: {name}: {now:.2f} s, then {then:.2f} s: {now / then:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=[*KINDS, "times"], default=[*KINDS, "times"])
    parser.add_argument("--renew", action="store_true", help="write the answers into the record")
    options = parser.parse_args()
    record, found = json.loads(RECORD.read_text()), []
    if not LOGS.is_dir():
        print("tables: not compared, for SMOOTHCERT_PUBLISHED_LOGS names no folder with logs")
        del KINDS["tables"]
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        furnish(sys.executable)
        for kind in [kind for kind in KINDS if kind in options.only]:
            for question, recorded in record[kind].items():
                answer = json.loads(json.dumps(KINDS[kind](question)))
                found += differences(recorded, answer, f"{kind}: {question}")
                record[kind][question] = answer
            print(f"{kind}: {len(record[kind])} questions", flush=True)
        if "times" in options.only and not options.renew:
            times()
    print(*found, f"{len(found)} differences" if found else "no difference", sep="\n")
    if options.renew:
        RECORD.write_text(f"{as_text(record)}\n")
    elif found:
        sys.exit(1)


if __name__ == "__main__":
    main()
