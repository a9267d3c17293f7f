"""Accuracy under attack beside certified accuracy: the true one lies between."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.progress import noun
from smoothcert.report.attack_values import alarms, attack_notes, run_name
from smoothcert.report.labels import radius_labels
from smoothcert.report.measures.analysis import Floats, certified_accuracy
from smoothcert.report.measures.attack_curves import (
    AttackCurve,
    Family,
    attack_families,
    setting_of,
)
from smoothcert.report.measures.attacked import EmpiricalRow, empirical_rows
from smoothcert.report.measures.shared_inputs import data_of
from smoothcert.report.plot import (
    COLOURS,
    DASHES,
    LineStyle,
    legend,
    line,
    looks,
    new_figure,
    percent,
    run_styles,
)
from smoothcert.report.read.attacks import (
    NO_ATTACK,
    Attacks,
    certificates_of,
)
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import (
    distinct_names,
    doubted,
    norm_names,
    one_line,
)
from smoothcert.report.table import Table
from smoothcert.report.view import View
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report

_NO_ATTACK = (
    "a table of attacks needs stores of attacks, and these runs have none: `smoothcert attack RUN --radius 0 0.5 1` "
    "makes one"
)


def attack_table(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> Table:
    """A row for each store of attacks, and before it one with the certified accuracy of the same inputs.

    The radii are those that were attacked; a cell stays blank where a store has no such radius. Equal certified rows
    are shown once. Rows of several stores that say the same of themselves name their stores.
    """
    if not attacks:
        raise ConfigError(_NO_ATTACK)
    shown = sorted({radius for a in attacks for radius in a.radii})
    rows: list[tuple[str, ...]] = []
    stores: list[Path] = []
    for a in attacks:
        c = certificates_of(a, results)
        found = {row.radius: row for row in empirical_rows(a, c)}
        certified = {
            r: in_percent(share, proved=True) for r, share in _certified(a, c, shown, found).items()
        }
        left = {r: in_percent(row.empirical) for r, row in found.items()}
        about = (one_line(run_name(a, c, results)), _inputs(list(found.values())))
        n = "-" if c is None or c.n is None else str(c.n)
        proved = (*about, "certified", "-", "-", n, *(certified.get(r, "") for r in shown))
        attack, noises, steps, *_ = setting_of(a)
        under = attack if attack == NO_ATTACK else f"under {attack}"
        own = (
            *about,
            under,
            str(steps or "-"),
            str(noises or "-"),
            str(a.n),
            *(left.get(r, "") for r in shown),
        )
        rows += [
            row
            for row in (proved, own)
            if row is own or (row not in rows and any(certified.values()))
        ]
        stores += [a.source.resolve()] * (len(rows) - len(stores))
    head = ("run", "inputs", "accuracy", "steps", "noises", "n")
    rows = _told_apart(rows, stores, len(head))
    notes = tuple(attack_notes(attacks, results))
    if any(c.norm != "l2" for c in results):
        notes = ("radii of attacks are in l2 norm", *notes)
    return Table(
        head,
        tuple(rows),
        radius_labels(shown),
        notes,
        group="accuracy (%) at r",
        caption="Under attack",
    )


def _told_apart(
    rows: Sequence[tuple[str, ...]], stores: Sequence[Path], head: int
) -> list[tuple[str, ...]]:
    """The same rows, with the name of the store in the third column where others have the same first `head` cells."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(row[:head], []).append(place)
    named = list(rows)
    for places in (places for places in alike.values() if len(places) > 1):
        for place, name in zip(
            places, distinct_names([(stores[place], None) for place in places]), strict=True
        ):
            run, inputs, accuracy, *rest = rows[place]
            of = "inputs of" if accuracy == "certified" else "store"
            named[place] = (run, inputs, f"{accuracy} ({of} {one_line(name)})", *rest)
    return named


def _certified(
    a: Attacks, c: Certificates | None, radii: Sequence[float], found: Mapping[float, EmpiricalRow]
) -> dict[float, float | None]:
    """Certified accuracy of the attacked inputs, also at radii of other attacks; what the store says if that is all."""
    if c is None or a.partial or not np.isin(a.inputs, c.idx).all():
        return {radius: row.certified for radius, row in found.items()}
    shares = certified_accuracy(c.where(np.isin(c.idx, a.inputs)), list(radii)).tolist()
    return {
        radius: None if np.isnan(share) else share
        for radius, share in zip(radii, shares, strict=True)
    }


def base_table(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> Table:
    """What the network itself answers on the same images: without noise, and under a single noise."""
    known = [a for a in attacks if a.base_predict is not None]
    if not known:
        raise ConfigError(
            "the network's own accuracy is stored by `smoothcert attack RUN --radius 0`, and with every attack of this "
            "version: none was found"
        )
    rows = [
        (
            one_line(run_name(a, c, results)),
            one_line(a.name) if row.radius else "none",
            *radius_labels([row.radius]),
            str(row.inputs),
            *map(in_percent, (row.base, row.noisy, row.empirical, row.abstained)),
        )
        for a in known
        for c in [certificates_of(a, results)]
        for row in empirical_rows(a, c)
    ]
    head = ("run", "attack", "r", "inputs", "network %", "one noise %", "smoothed %", "abstain %")
    note = "network: without noise; one noise: mean over PREDICT's noisy copies; smoothed: PREDICT's answer"
    notes = (*alarms(attacks, results), note)
    return Table(
        head, tuple(dict.fromkeys(rows)), notes=notes, caption="The network itself", look="text"
    )


def _inputs(rows: Sequence[EmpiricalRow]) -> str:
    """How many were attacked; while a store is being made, the radii may differ in it."""
    counts = sorted({row.inputs for row in rows})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))


@looks()
def attack_figure(families: Sequence[Family], first_run: int = 0) -> Figure:
    """The certified curve of each family, and a line for each kind of attack on it.

    What an attack leaves at a radius bounds the accuracy from there on, so the line stays level up to the next radius.
    Points on it are the radii that were attacked.
    A page that shows and hides its runs numbers the lines from `first_run` on, so that these stay.
    """
    figure, (axes,) = new_figure()
    run, largest = count(first_run), 0.0
    end = 1.02 * max(float(radii.max(initial=0.0)) for f in families for radii in _radii(f)) or 1.0
    styles = run_styles([family.models[0] for family in families])
    for family, style in zip(families, styles, strict=True):
        name = doubted(family.name, *family.models)
        radii, share = family.certified
        largest = max(largest, float(share.max(initial=0.0)))
        if not family.dots:  # both ends of each drop, the last to 0
            radii, share = np.repeat(radii, 2), np.append(np.repeat(share, 2)[1:], 0.0)
        label = f"{name}: certified, {_counted(family)}"
        line(axes, radii, share, label, style, next(run), marker="dots" if family.dots else "")
        one_colour = len(families) > 1 or len(family.curves) == 1
        for place, curve in enumerate(family.curves, start=1):
            colour = style.colour if one_colour else (style.colour + place) % len(COLOURS)
            label = f"{name}: " * (len(families) > 1) + curve.label
            drawn = LineStyle(colour, place % len(DASHES))
            x, y = np.append(np.repeat(curve.radii, 2)[1:], end), np.repeat(curve.accuracy, 2)
            own = [2 * i for i, r in enumerate(curve.radii.tolist()) if r in curve.attacked]
            line(axes, x, y, label, drawn, next(run), marker="full", marked=own)
            largest = max(largest, float(y.max(initial=0.0)))
    top = max(math.ceil(10 * largest - 1e-9) / 10, 0.1)
    axes.set(xlim=(0.0, end), ylim=(0.0, top))
    axes.set(xlabel=f"radius r ({norm_names(['l2'])})", ylabel="accuracy")
    percent(axes.yaxis)
    legend(figure)
    names = ", ".join(doubted(family.name, *family.models) for family in families)
    figure.set_label(
        f"Certified and empirical accuracy of {names}. "
        "Certified accuracy is proved from below, accuracy under attack bounds it from above, both on "
        f"{_on(families)}. An attack takes m noises and T steps, PREDICT n samples at α. "
        "Points are the radii that were attacked. "
        "A bound holds for all larger radii too, also beyond the largest that was attacked. "
        f"{'; '.join(map(_summary, families))}."
        + "".join(f" Note: {note}." for family in families for note in family.notes)
    )
    return figure


def _counted(family: Family) -> str:
    """How many inputs it is about: as many as all families on its data set."""
    inputs = family.models[0].rows
    return f"{inputs} {noun(inputs, 'input')}"


def _on(families: Sequence[Family]) -> str:
    by_data = {data_of(family.models[0]): _counted(family) for family in families}
    if len(by_data) == 1:
        return _counted(families[0])
    return " and ".join(f"{counted} of {' '.join(data)}" for data, counted in by_data.items())


def _summary(family: Family) -> str:
    def told(curve: AttackCurve) -> str:
        points = zip(curve.radii.tolist(), curve.accuracy.tolist(), strict=True)
        return f"{curve.label}: " + ", ".join(
            f"{in_percent(share)} % at {radius:g}" for radius, share in points
        )

    models = len(family.models)
    best = f", the best certified of {models} models at each radius" if models > 1 else ""
    return f"{family.name}{best}: " + "; ".join(map(told, family.curves))


def _radii(family: Family) -> list[Floats]:
    return [family.certified[0], *(curve.radii for curve in family.curves)]


def _tables(report: Report) -> list[Table]:
    found = [attack_table(report.attacks, report.runs)]
    if report.on_page:  # where the table stands without the curves
        try:
            families = attack_families(report.attacks, report.runs)
            told = [note for family in families for note in family.notes]
        except ConfigError as error:
            told = [str(error)]
        found = [replace(found[0], notes=(*found[0].notes, *told))]
    if any(a.base_predict is not None for a in report.attacks):
        found.append(base_table(report.attacks, report.runs))
    return found


VIEW = View(
    "attacks",
    "Under attack",
    "accuracy under attack beside certified accuracy, and the network itself",
    _tables,
    # lines that are no runs of the page's legends stay when a run is switched off
    lambda report: attack_figure(
        attack_families(report.attacks, report.runs), len(report.runs) * report.on_page
    ),
    lambda report: (
        "What an attack within r leaves of the accuracy is an upper bound of the accuracy against the worst change; "
        "the certified accuracy of the same inputs is a lower bound. The closer the two, the more is known. Points on "
        "a line are the radii that were attacked; what is left there bounds the accuracy at all larger radii too, so "
        "the line stays level up to the next. An abstention counts as an error. An attack averages over m noises in T "
        "steps, and PREDICT, which answers, takes n samples. Of several runs of one method, the curve shows at each "
        "radius the one that is certified best there. *Network* is the share of the same images that the network "
        "answers correctly without noise, *one noise* that under a single noise."
    ),
    unasked=lambda report: bool(report.attacks),
    keys=True,
)
