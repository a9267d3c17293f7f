"""What stands in the page: the sections of the views, the words at its top, and what its script needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcert.errors import ConfigError
from smoothcert.progress import noun
from smoothcert.report.labels import radius_labels
from smoothcert.report.measures.analysis import curve_values, proved
from smoothcert.report.measures.confidence import has_confidence, p_ecdf
from smoothcert.report.measures.same_data import comparable, contenders
from smoothcert.report.page.gallery import Gallery
from smoothcert.report.plot import inline_svg
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import ALARM, labels_of
from smoothcert.report.table import Table
from smoothcert.report.view import Reading, View
from smoothcert.statistics.printed import at_least, in_percent

if TYPE_CHECKING:
    from smoothcert.report.report import Report


SURE = 0.99  # the confidence that the head of the page asks for


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


def heat(table: Table, row: int, column: int) -> float | None:
    """The shade of a cell of a heat table: 0 for the smallest value of the table, 1 for the largest."""
    values = (
        [float(cell) for entry in table.rows for cell in entry[1:] if cell != "-"]
        if table.look == "heat"
        else []
    )
    cell = table.rows[row][column]
    if not values or cell == "-" or max(values) == min(values):
        return None
    return (float(cell) - min(values)) / (max(values) - min(values))


class Section(NamedTuple):
    """A view as the page shows it; `keys` are the places of the runs in its picture that need a legend there."""

    view: View
    tables: Sequence[Table]
    figure: str
    keys: Sequence[int]
    how: str
    reading: Reading | None
    notes: Sequence[str]


def told_once(sections: Sequence[Section], told: Sequence[str]) -> list[Section]:
    """Without the notes that a reader has seen above, but alarms stand beside the attacks too."""
    seen, found = {*told}, []
    for each in sections:
        notes = [
            note
            for note in dict.fromkeys(each.notes)
            if note not in seen or (each.view.name == "attacks" and note.startswith(ALARM))
        ]
        seen |= {*notes}
        found.append(each._replace(notes=notes))
    return found


def section(view: View, report: Report, main: Report) -> Section | None:
    """None where it cannot be made. `main` has all runs, `report` those that may share a chart."""
    tables: Sequence[Table] = ()
    figure = None
    with suppress(ConfigError):
        tables = view.tables(main if view.name == "accuracy" else report) if view.tables else ()
    with suppress(ConfigError):
        figure = view.draw(report) if view.draw else None
    if not tables and figure is None:
        return None
    drawn = "" if figure is None else inline_svg(figure, f"{view.name}-chart", keys=view.keys)
    reading = view.reading(report) if drawn else None
    places = dict.fromkeys(map(int, re.findall(r'data-run="(\d+)"', drawn)))
    keys = [] if view.keys or reading else [i for i in places if i < len(report.runs)]
    notes = [note for table in tables for note in table.notes]
    return Section(view, tables, drawn, keys, view.how(report), reading, notes)
