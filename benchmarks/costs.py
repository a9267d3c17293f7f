"""What n and alpha allow, and how many samples `--radius` takes: the tables of docs/choosing.md.

    python benchmarks/costs.py

They hold for every network. They are computed, not measured, so they need neither data nor a GPU.
"""

import argparse
import math

import numpy as np
from scipy.stats import norm

from smoothcert.evaluation.outlook import limits_of, samples_expected
from smoothcert.statistics.bounds import lower_bound
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.stopping import Level, RadiusTests

SAMPLES = (100, 1_000, 10_000, 100_000, 1_000_000)
ALPHAS = (0.001, 1e-5)
SHARES = (0.6, 0.9, 0.99, 0.999)  # of the votes, for the top class
RADII = (0.0, 0.5, 1.0, 2.0)  # in units of sigma
N, ALPHA, LAW = 100_000, 0.001, law_named("gaussian")
VOTES = 500  # images that are simulated for each cell, four times each


def limits_table() -> str:
    head = [
        "n",
        *(
            f"{name}, α = {alpha:g}"
            for alpha in ALPHAS
            for name in ("largest radius", "smallest share")
        ),
    ]
    rows = []
    for n in SAMPLES:
        limits = [limits_of(1.0, n, alpha, LAW) for alpha in ALPHAS]
        cells = [
            (in_sigmas(limit.largest_radius), f"{100 * limit.smallest_p:.2f} %") for limit in limits
        ]
        rows.append([f"{n:,}", *(cell for pair in cells for cell in pair)])
    return markdown(head, rows)


def proved_table() -> str:
    rows = []
    for n in SAMPLES:
        proved = [
            float(LAW.radius(lower_bound(round(n * share), n, ALPHA), 1.0)) for share in SHARES
        ]
        rows.append(
            [f"{n:,}", *(in_sigmas(found) if found > 0 else "abstains" for found in proved)]
        )
    rows.append(["without end", *(in_sigmas(norm.ppf(share)) for share in SHARES)])
    return markdown(["n", *map(share_head, SHARES)], rows)


def samples_table() -> str:
    rows = []
    for r in RADII:
        needed, test = norm.cdf(r), RadiusTests((r,), Level(LAW, 1.0, N, ALPHA))
        cells = []
        for share in SHARES:
            samples = samples_expected(test, np.full(VOTES, share))
            shown = f"{float(f'{samples:.2g}'):,.0f}"
            cells.append(shown if share > needed else f"({shown})")
        rows.append([f"{r:g} σ", f"{100 * needed:.1f} %", *cells])
    return markdown(["radius", "needs more than", *map(share_head, SHARES)], rows)


def share_head(share: float) -> str:
    return f"share {100 * share:g} %"


def in_sigmas(r: float) -> str:
    """Rounded down, as all radii are."""
    return f"{math.floor(100 * r) / 100:.2f} σ"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print("\n\n".join((limits_table(), proved_table(), samples_table())))


if __name__ == "__main__":
    main()
