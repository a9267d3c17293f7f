"""How often a verdict on a published row is right: simulated rows whose truth is known.

    python benchmarks/verdicts.py --out results/verdicts.json    # and prints the table of docs/verdicts.md

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
    ours: int  # seeds
    theirs: int
    spread: str  # which is printed: "its own", "other rows'" (of nine) or "none"
    images: int = ALL  # of ours; if these are fewer than theirs, they are some of them
    numbers: int = 1 + len(RADII)  # printed: the ACR, then the accuracies
    log: bool = False  # whether theirs is there

    def cells(self) -> tuple[str, ...]:
        printed = "ACR" if self.numbers == 1 else f"{self.numbers} numbers"
        images = "the same" if self.images == ALL else f"{self.images:,} of them"
        return str(self.ours), str(self.theirs), printed, self.spread, images + ", log" * self.log


CASES = (
    Case(1, 5, "its own"),
    Case(3, 5, "its own"),
    Case(1, 1, "other rows'"),
    Case(3, 1, "other rows'"),
    Case(1, 1, "other rows'", numbers=1),
    Case(3, 1, "none"),
    Case(5, 1, "none"),
    Case(5, 1, "none", images=500),
    Case(1, 1, "other rows'", images=500),
    Case(1, 1, "other rows'", images=500, log=True),
    Case(1, 1, "other rows'", images=2000),
    Case(1, 1, "other rows'", images=2000, log=True),
)
SHIFTS = (0.0, 0.02, 0.05)
WORDS = ("reproduced", "different", "not judged")


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
    a, b = (found[: case.numbers] for found in (values(ours), values(theirs, digits=True)))
    pools = [Spread()] * len(b)
    if case.spread == "other rows'":
        methods = [float(np.exp(rng.normal(0, UNLIKE))) for _ in range(9)]
        others = [values(radii(rng, images, 5, each)) for each in methods]
        spreads = [[Spread(v.sd, 4) for v in column] for column in zip(*others, strict=True)]
        pools = [pool(column) for column in spreads[: len(b)]]
    found = []
    for mine, printed, own in zip(a, b, pools, strict=True):
        apart = case.images < ALL
        error = image_error(mine, printed, float(ours.std())) if apart else 0.0
        log = with_log(theirs[:1, : case.images], ours, printed) if case.log else None
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
    parser.add_argument("--rows", type=int, default=1000, help="simulated rows of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    git = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    found = []
    truths = ["the same", *(f"{shift:g} apart" for shift in SHIFTS[1:])]
    heads = ["seeds of ours", "of theirs", "printed", "its spread", "images", *truths]
    print(f"| {' | '.join(heads)} |" + "\n|" + "---|" * len(heads))
    for place, case in enumerate(CASES):
        cells = []
        for shift in SHIFTS:
            rng = np.random.default_rng([options.seed, place, int(100 * shift)])
            count = Counter(verdict(case, shift, rng) for _ in range(options.rows))
            shares = {word: count[word] / options.rows for word in WORDS}
            found.append({**case._asdict(), "shift": shift, **shares})
            cells.append(" / ".join(f"{100 * share:.1f}" for share in shares.values()))
        print(f"| {' | '.join([*case.cells(), *cells])} |", flush=True)
    if options.out:
        command = f"python benchmarks/verdicts.py --rows {options.rows} --seed {options.seed}"
        made = {"command": command, "commit": commit, "seed": options.seed, "rows": found}
        options.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
