"""How often a verdict on a published row is right: simulated rows whose truth is known.

    python benchmarks/verdicts.py                          # the table of docs/verdicts.md
    python benchmarks/verdicts.py --out results/verdicts.json

Images differ in how robust a network is on them; trainings differ on all images together and on each image. Some
methods vary more from seed to seed than others, as in the published tables. A row has an ACR and eight certified
accuracies. Ours is made as the printed row was, or its certified accuracy is another one at every radius: by .02 or
by .05. The numbers are like those of CIFAR-10 at sigma 0.5.
"""

import argparse
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from smoothcert.published.averages import over_seeds
from smoothcert.published.judge import Beside, Spread, image_error, judge, of_row, pool
from smoothcert.statistics.value import ACR, CERTIFIED_ACCURACY, Value

RADII = np.arange(0, 2, 0.25)
LARGEST = 1.9  # radius that n samples can give at sigma 0.5
CENTRE, WIDTH = 0.35, 0.85  # of the radii of images, before those below 0 are none
OF_SEEDS, OF_IMAGES = 0.008, 0.2  # standard deviations between trainings, in units of radius
UNLIKE = 0.65  # standard deviation of the logarithm of a method's spread
ALL = 10_000


class Case(NamedTuple):
    name: str
    ours: int = 1  # seeds
    theirs: int = 1
    images: int = ALL  # of ours; theirs are always ALL, unless they are the same
    same: bool = True
    table: bool = False  # whether a table prints spreads of nine other rows
    log: bool = False
    acr_alone: bool = False


CASES = (
    Case("1 seed, mean of 5 seeds printed", theirs=5),
    Case("3 seeds, mean of 5 seeds printed", ours=3, theirs=5),
    Case("1 seed, 1 printed, spreads of other rows printed", table=True),
    Case("3 seeds, 1 printed, spreads of other rows printed", ours=3, table=True),
    Case("1 seed, 1 printed ACR alone, spreads of other rows printed", table=True, acr_alone=True),
    Case("3 seeds, 1 printed, no spread printed", ours=3),
    Case("5 seeds, 1 printed, no spread printed", ours=5),
    Case("5 seeds, 1 printed, 500 of its images", ours=5, images=500, same=False),
    Case(
        "1 seed, 1 printed, 500 of its images, spreads printed", images=500, same=False, table=True
    ),
    Case("the same, with its log", images=500, same=False, table=True, log=True),
    Case(
        "1 seed, 1 printed, 2,000 of its images, spreads printed",
        images=2000,
        same=False,
        table=True,
    ),
    Case("the same, with its log", images=2000, same=False, table=True, log=True),
)


def radii(
    rng: np.random.Generator, images: np.ndarray, seeds: int, vary: float, shift: float = 0.0
) -> np.ndarray:
    """One row per training; the certified accuracy at each radius is lower by `shift`."""
    common = rng.normal(0, OF_SEEDS * vary, (seeds, 1))
    each = rng.normal(0, OF_IMAGES, (seeds, len(images)))
    width = np.hypot(WIDTH, np.hypot(OF_SEEDS * vary, OF_IMAGES))
    place = (images * WIDTH + common + each) / width
    if shift:
        with np.errstate(divide="ignore"):
            place = norm.ppf(np.maximum(norm.cdf(place) - shift, 0))
    return np.clip(CENTRE + width * place, 0, LARGEST)


def curves(found: np.ndarray) -> np.ndarray:
    """ACR, then the certified accuracies; one column per training."""
    return np.array([found.mean(1), *((found >= max(r, 1e-9)).mean(1) for r in RADII)])


def values(found: np.ndarray, digits: bool = False) -> list[Value]:
    """Over the trainings; to the digits that are printed."""
    made = []
    for run in curves(found).T.tolist():
        made.append(Value("", ACR, run[0], images=found.shape[1]))
        made += [
            Value("", CERTIFIED_ACCURACY, share, r, images=found.shape[1])
            for r, share in zip(RADII, run[1:], strict=True)
        ]
    both = over_seeds(made)
    return (
        [v._replace(value=round(v.value, 3), sd=round(v.sd, 4)) for v in both] if digits else both
    )


def verdict(case: Case, shift: float, rng: np.random.Generator) -> str:
    images = rng.normal(size=ALL)
    vary = float(np.exp(rng.normal(0, UNLIKE)))
    theirs = radii(rng, images, case.theirs, vary)
    ours = radii(rng, images[: case.images], case.ours, vary, shift)
    kept = 1 if case.acr_alone else None
    a, b = values(ours)[:kept], values(theirs, digits=True)[:kept]
    pools = [Spread()] * len(b)
    if case.table:
        others = [
            values(radii(rng, images, 5, np.exp(rng.normal(0, UNLIKE))))[:kept] for _ in range(9)
        ]
        pools = [
            pool([Spread(each.sd, 4) for each in column]) for column in zip(*others, strict=True)
        ]
    paired = [None] * len(b)
    if case.log:
        both = (theirs[:1, : case.images], ours)
        paired = [with_log(*both, measure) for measure in b]
    found = []
    for mine, printed, own, log in zip(a, b, pools, paired, strict=True):
        error = 0.0 if case.same else image_error(mine, printed, float(ours.std()))
        found.append(judge(mine, printed, Beside(0.001, own, error, log, len(b))))
    return of_row(found)


def with_log(log: np.ndarray, ours: np.ndarray, of: Value) -> Value:
    """Ours minus the log, image by image; the ends are those that the paired bootstrap tends to."""
    if of.measure == CERTIFIED_ACCURACY:
        log, ours = ((x >= max(of.r, 1e-9)).astype(float) for x in (log, ours))
    apart = ours.mean(0) - log[0]
    wide = 1.96 * apart.std() / np.sqrt(len(apart))
    return of._replace(value=apart.mean(), low=apart.mean() - wide, high=apart.mean() + wide)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400, help="simulated rows of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    print(
        "| ours and theirs | truth | reproduced | different | not judged |\n|---|---|---|---|---|"
    )
    for place, case in enumerate(CASES):
        for shift in (0.0, 0.02, 0.05):
            rng = np.random.default_rng([options.seed, place, int(100 * shift)])
            count = Counter(verdict(case, shift, rng) for _ in range(options.rows))
            words = {
                word: count[word] / options.rows
                for word in ("reproduced", "different", "not judged")
            }
            truth = f"{shift:g} apart" if shift else "the same"
            found.append({"case": case.name, "images": case.images, "shift": shift, **words})
            print(
                f"| {case.name} | {truth} | "
                + " | ".join(f"{100 * w:.1f} %" for w in words.values())
                + " |",
                flush=True,
            )
    if options.out:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        command = f"python benchmarks/verdicts.py --rows {options.rows} --seed {options.seed}"
        made = {"command": command, "commit": commit, "seed": options.seed, "rows": found}
        options.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
