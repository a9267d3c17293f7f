"""What stands in each section of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.progress import noun
from smoothcert.report.curves import axis_top
from smoothcert.report.labels import radius_labels
from smoothcert.report.measures.analysis import Floats, certified_accuracy, curve_values, proved
from smoothcert.report.measures.confidence import has_confidence, p_ecdf
from smoothcert.report.measures.corrupted import Corrupted
from smoothcert.report.measures.overlays import overlays
from smoothcert.report.measures.pairing import paired
from smoothcert.report.measures.same_data import comparable, contenders
from smoothcert.report.page.gallery import Gallery
from smoothcert.report.plot import run_styles
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import labels_of, one_line
from smoothcert.report.read.trainings import Training, finite
from smoothcert.report.table import Table
from smoothcert.report.views.corruptions import corruption_table, corruption_types_tables
from smoothcert.report.views.differences import difference_figure, difference_table
from smoothcert.report.views.envelope import envelope_table
from smoothcert.report.views.losses import loss_figure
from smoothcert.report.views.radii import histogram_figure
from smoothcert.report.views.seeds import seed_table
from smoothcert.report.views.trade_offs import overlay_figure
from smoothcert.statistics.printed import at_least, in_percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SURE = 0.99  # the confidence that the head of the page asks for
MOST_RUNS = (
    24  # with a histogram, or compared by the bootstrap: with more of them nobody reads a page
)


def headline(
    results: Sequence[Certificates], radii: Sequence[float], rounded: bool
) -> dict[str, Any]:
    """What the page begins with: the best certified accuracies at three radii, and the highest confidence."""
    rows = sorted({c.rows for c in results})
    sigmas = {c.sigma for c in results}
    sigma = next(iter(sigmas)) if len(sigmas) == 1 else None
    labels = labels_of(results)
    chosen = [radii[i] for i in sorted({0, len(radii) // 4, len(radii) // 2})] if radii else []
    shares = {r: [float(curve_values(c, r, rounded)) for c in results] for r in chosen}
    down = proved(results, rounded)
    shown = [
        (*radius_labels([r]), *_best(results, labels, values, down)) for r, values in shares.items()
    ]
    sure = [float(p_ecdf(c, SURE)) if has_confidence(c) else np.nan for c in results]
    return {
        "runs": f"{len(results)} {noun(len(results), 'run')}",
        "inputs": f"{rows[0]:,}" if len(rows) == 1 else f"{rows[0]:,} to {rows[-1]:,}",
        "sigma": "" if sigma is None else f"{sigma:g}",
        "certified": [entry for entry in shown if float(entry[1] or 0)]
        if comparable(results)
        else [],
        # more noise makes every classifier less confident
        "confidence": _best(results, labels, sure, proved(results))
        if len(sigmas) == 1 and comparable(results)
        else ("", ""),
        "sure": f"{SURE:g}",
    }


def _best(
    results: Sequence[Certificates], labels: Sequence[str], shares: Sequence[float], down: bool
) -> tuple[str, str]:
    """The largest share in %, among the `contenders`, and who has it; blank where none is known."""
    every = contenders(results, range(len(results)))
    known = {i: shares[i] for i in every if not np.isnan(shares[i])}
    first = [labels[i] for i, share in known.items() if share == max(known.values())]
    others = (
        f" and {len(first) - 1} more"
        if len(first) > 2
        else f" and {first[1]}"
        if len(first) == 2
        else ""
    )
    return (in_percent(max(known.values()), down), first[0] + others) if known else ("", "")


def with_budget(table: Table, results: Sequence[Certificates]) -> Table:
    """The main table with samples n and failure probability alpha after the inputs, where any run knows them."""
    place = table.head.index("inputs") + 1
    budget = [_budget(c) for c in results]
    if not any(cell != "-" for pair in budget for cell in pair):
        return table
    rows = [
        (*row[:place], *cells, *row[place:]) for row, cells in zip(table.rows, budget, strict=True)
    ]
    head = (*table.head[:place], "n", "alpha", *table.head[place:])
    return replace(table, head=head, rows=tuple(rows))


def _budget(c: Certificates) -> tuple[str, str]:
    early = c.identity.get("procedure", "fixed") != "fixed"
    n = "-" if c.n is None else f"{'≤ ' * early}{c.n}"
    return n, "-" if c.alpha is None else f"{c.alpha:g}"


def readings(results: Sequence[Certificates], rounded: bool, most: int = 400) -> dict[str, Any]:
    """The values that the page shows at the pointer: shares in % on a fine grid of radii, and of probabilities."""
    top, density, coarser = (
        axis_top(results)[0],
        100.0,
        cycle((2, 2.5, 2)),
    )  # steps of 0.01, 0.02, 0.05, 0.1, ...
    while top * density > most:
        density /= next(coarser)
    # Divided, not multiplied by a step: 0.35 must be the double nearest to 0.35, or a tie there would be lost.
    radii = np.arange(int(top * density) + 1) / density
    start = int(np.searchsorted(radii[:-1], min(0.5, top / 2)))
    every = list(range(len(results)))
    found = {
        "curves": _reading(
            *(radii, start, "r", 2, every, lambda i: curve_values(results[i], radii, rounded)),
            proved(results, rounded),
        )
    }
    known = [i for i in every if has_confidence(results[i])]
    if known:
        p = np.arange(500, 1000) / 1000
        sure = proved(results)
        found["confidence"] = _reading(p, 400, "p", 3, known, lambda i: p_ecdf(results[i], p), sure)
    return found


def _reading(
    x: Floats,
    start: int,
    symbol: str,
    digits: int,
    runs: Sequence[int],
    shares: Callable[[int], Floats],
    down: bool,
) -> dict[str, Any]:
    # Rounded here, by the rule of the table: the script would print a tie such as 73.25 the other way.
    cells = ([in_percent(share, down) for share in shares(run).tolist()] for run in runs)
    values = [[float(cell) if cell else None for cell in row] for row in cells]
    shown = [f"{value:.{digits}f}" for value in x.tolist()]
    grid = np.round(x, 6).tolist()
    return {
        "x": grid,
        "shown": shown,
        "start": start,
        "symbol": symbol,
        "runs": list(runs),
        "values": values,
    }


def comparison(
    results: Sequence[Certificates], radii: Sequence[float], rounded: bool, reference: int = 0
) -> dict[str, Any]:
    """Differences with intervals, best run by radius, seeds, trade-offs; empty where there is nothing to compare."""
    if len(results) == 1 or len({c.norm for c in results}) > 1 or not results[0].labelled:
        return dict.fromkeys(
            ("envelope", "differences", "difference_chart", "compared", "seeds", "trade_offs")
        )
    compared = radii_to_compare(results[:MOST_RUNS], results[reference], radii, rounded)
    differences = difference_table(results, reference, compared, rounded, most=MOST_RUNS)
    chart = differences and difference_figure(results, reference, rounded, most=MOST_RUNS)
    series = overlays(results, (), (), rounded)
    joined = any(entry.parameter and len(entry.spots) > 1 for entry in series)
    return {
        "envelope": envelope_table(results, radii, rounded) if comparable(results) else None,
        "differences": differences,
        "difference_chart": chart,
        "compared": chart and [pair.place for pair in paired(results, reference)[0][:MOST_RUNS]],
        "seeds": seed_table(results, radii, rounded),
        "trade_offs": overlay_figure(series, (), rounded=rounded, down=proved(results, rounded))
        if joined
        else None,
    }


def radii_to_compare(
    results: Sequence[Certificates],
    reference: Certificates,
    radii: Sequence[float],
    rounded: bool,
    most: int = 8,
) -> list[float]:
    """All radii if they are few, else evenly spaced ones and those with the largest gain and the largest loss."""
    if len(radii) <= most:
        return list(radii)
    shares = np.array([certified_accuracy(c, list(radii), rounded) for c in results])
    difference = np.nan_to_num(
        shares - certified_accuracy(reference, list(radii), rounded)
    )  # [runs, radii]
    extremes = {int(difference.max(axis=0).argmax()), int(difference.min(axis=0).argmin())}
    even = np.linspace(0, len(radii) - 1, most - len(extremes)).round().astype(int).tolist()
    return [radii[place] for place in sorted(extremes | set(even))]


def histograms(results: Sequence[Certificates]) -> Figure | None:
    """One small chart for each of the first runs that measured radii; None where none did."""
    measured = any(c.tested_radii is None for c in results)
    return histogram_figure(results, MOST_RUNS) if measured else None


def training_chart(results: Sequence[Certificates], trainings: Sequence[Training]) -> Figure | None:
    """Lines look as those of the runs; None where no run has two epochs or more."""
    styles = enumerate(run_styles(results))
    runs = {one_line(c.name): place for c, place in zip(results, styles, strict=True)}
    known = [
        training
        for training in trainings
        if sum(finite(epoch, "epoch", training.loss) for epoch in training.epochs) > 1
    ]
    return loss_figure(known, runs=runs) if known else None


def corruptions(
    benchmarks: Sequence[Sequence[Corrupted]], rounded: bool
) -> list[tuple[Table, list[Table]]]:
    """For each corruption benchmark its means, and what they are the means of."""
    return [
        (corruption_table(entries, rounded), corruption_types_tables(entries, rounded))
        for entries in benchmarks
    ]


def gallery_data(gallery: Gallery | None) -> dict[str, Any] | None:
    """The cards as the script of the page takes them."""
    if gallery is None or gallery.problem:
        return None
    cards = [
        [
            card.run, card.kind, card.index, card.label, card.predict, at_least(card.radius, 3),
            [[k, round(100 * count / (card.samples or 1)), f"{count:,}"] for k, count in card.counts], card.image,
        ]
        for card in gallery.cards
    ]  # fmt: skip
    return {
        "cards": cards,
        "images": list(gallery.images),
        "names": list(gallery.names),
        "kinds": list(gallery.kinds.items()),
    }


def heat(kind: str, table: Table, row: int, column: int) -> float | None:
    """The shade of a cell of a heat table: 0 for the smallest value of the table, 1 for the largest."""
    values = (
        [float(cell) for entry in table.rows for cell in entry[1:] if cell != "-"]
        if kind == "heat"
        else []
    )
    cell = table.rows[row][column]
    if not values or cell == "-" or max(values) == min(values):
        return None
    return (float(cell) - min(values)) / (max(values) - min(values))
