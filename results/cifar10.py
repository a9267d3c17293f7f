"""Compares certified CIFAR-10 runs with the authors' logs, on the same images: writes results/cifar10.json.

    python results/cifar10.py RUNS LOGS

RUNS has a run folder for each recipe (``RUNS/stability-0.50``), or one for each seed below it
(``RUNS/gaussian-0.50/seed1``). LOGS is the folder of the logs that were released with CAT-RS; which of them belongs to
a recipe is said in the catalogue. A recipe is reproduced if its ACR, the mean over its seeds, is within 0.02 of the
log's on the images that were certified. Intervals are those of a paired bootstrap over images. Recipes that RUNS has no
certificates of stay in the file as they are.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from smoothcert.published.catalogue import load_table
from smoothcert.report import average_certified_radius, certified_accuracy, read_log, read_store
from smoothcert.report.measures.bootstrap import Interval
from smoothcert.report.measures.pairing import differences, paired
from smoothcert.report.read.certificates import Certificates

TABLE = "catrs-logs/cifar10"
ALLOWED = 0.02
CERTIFICATION = ("n0", "n", "alpha", "noise", "seed", "every", "skip_wrong", "device_type")


def compared(recipe: str, seeds: list[Certificates], log_path: Path) -> dict:
    """The seeds of one recipe beside its log."""
    log = read_log(log_path)
    pairs, left_out = paired([log, *seeds], 0)
    reasons = list(left_out.values())
    if any(not np.array_equal(c.idx, seeds[0].idx) for c in seeds):
        reasons.append("its seeds were certified on different images")
    if any(pair.run.rows < seeds[pair.place - 1].rows for pair in pairs):
        reasons.append("images were certified that the log does not have")
    if reasons:
        raise SystemExit(f"{recipe} cannot be compared with {log_path}: {'; '.join(reasons)}")
    same = pairs[0].reference  # the log on the images that were certified
    mean, theirs = float(np.mean([acr(c) for c in seeds])), acr(same)
    return {
        "recipe": recipe,
        "inputs": seeds[0].rows,
        "acr": round(mean, 4),
        "log": {
            "acr": round(theirs, 4),
            "certified_accuracy": shares(same),
            "acr_on_all_images": round(acr(log), 4),
        },
        "difference": round(mean - theirs, 4),
        "allowed_difference": ALLOWED,
        "reproduced": abs(mean - theirs) <= ALLOWED,
        "seeds": [
            of_seed(pair.run, found.acr) for pair, found in differences(pairs, (), rounded=True)
        ],
    }


def of_seed(c: Certificates, interval: Interval) -> dict:
    config, settings, run = c.config, c.identity, c.source.parent.parent
    environment = run / "environment.jsonl"
    lines = (
        environment.read_text().splitlines() if environment.exists() else []
    )  # older runs have none
    trained = [json.loads(line)["commit"][:7] for line in lines]
    return {
        "seed": config["seed"],
        "acr": round(acr(c), 4),
        "certified_accuracy": shares(c),
        "difference": {
            name: round(getattr(interval, name), 4) for name in ("value", "low", "high")
        },
        "training": {
            "precision": config["precision"],
            "epochs": config["epochs"],
            "commits": sorted(set(trained)),
        },
        "certification": {name: settings.get(name, False) for name in CERTIFICATION},
        "certification_commit": (c.manifest["environment"].get("commit") or "")[:7] or None,
    }


def acr(c: Certificates) -> float:
    return average_certified_radius(c, rounded=True)


def shares(c: Certificates) -> dict[str, float]:
    radii = load_table(TABLE).radii
    found = certified_accuracy(c, radii, rounded=True)
    return {f"{r:g}": round(float(share), 4) for r, share in zip(radii, found, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "cifar10.json")
    options = parser.parse_args()
    before = json.loads(options.out.read_text()) if options.out.exists() else []
    kept, found = {row["recipe"]: row for row in before}, {}
    for row in load_table(TABLE).rows:
        folder = options.runs / row.recipe.removeprefix("cifar10/")
        stores = sorted([*folder.glob("certify/test"), *folder.glob("seed*/certify/test")])
        if stores:
            found[row.recipe] = compared(
                row.recipe, [read_store(store) for store in stores], options.logs / row.log
            )
    if not found:
        raise SystemExit(
            f"no recipe of {TABLE} has certificates in {options.runs}: expected RECIPE/certify/test there"
        )
    both = kept | found
    rows = [both[row.recipe] for row in load_table(TABLE).rows if row.recipe in both]
    options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
