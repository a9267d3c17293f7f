"""The distribution of the lower bound of p_A, the probability of the answer under noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.report.curves import answered, axis_top, curve_name, reading
from smoothcert.report.measures.analysis import (
    proved,
)
from smoothcert.report.measures.confidence import (
    has_confidence,
    no_confidence,
    p_curve,
    p_ecdf,
    why_unknown,
)
from smoothcert.report.measures.intervals import share_intervals
from smoothcert.report.notes import (
    budget_notes,
    input_notes,
    inputs_cell,
    reading_notes,
    settings_notes,
)
from smoothcert.report.plot import legend, line, looks, new_figure, percent, run_styles
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import drawn_labels, labels_of
from smoothcert.report.table import Cell, Table
from smoothcert.report.view import Reading, View
from smoothcert.statistics.printed import in_percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smoothcert.report.report import Report

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)


def confidence_table(results: Sequence[Certificates], intervals: bool = False) -> Table:
    """The share of inputs with p_A of at least p, for each run whose p_A is known (`p_ecdf`).

    `intervals` adds 95 % intervals over the choice of inputs (`share_intervals`).
    """
    rows: list[tuple[str, ...]] = []
    notes = []
    for c, label in zip(results, labels_of(results), strict=True):
        if not has_confidence(c):
            notes.append(f"{label}: p_A is not known: {why_unknown(c)}")
            continue
        shares = p_ecdf(c, LEVELS)
        cells = [in_percent(share, proved(results)) for share in shares.tolist()]
        if intervals:
            ends = share_intervals(shares, c.rows)
            cells = [
                Cell(cell, around=(in_percent(each.low), in_percent(each.high)))
                for cell, each in zip(cells, ends, strict=True)
            ]
        rows.append((label, inputs_cell(c), *cells))
    if not rows:
        raise no_confidence(results, "a table")
    known = [c for c in results if has_confidence(c)]
    notes += reading_notes(results)
    if any(not c.labelled for c in results):
        notes.append("inputs without labels count where they are answered, right or wrong")
    notes += input_notes(known)
    if len({c.sigma for c in known}) > 1:
        notes.append("the runs differ in sigma: more noise makes every classifier less confident")
    notes += budget_notes(known) + settings_notes(known)
    return Table(
        ("run", "inputs"),
        tuple(rows),
        tuple(f"{p:g}" for p in LEVELS),
        tuple(notes),
        group=f"{'correct' if any(c.labelled for c in known) else 'answered'} (%) with confidence of at least p",
        symbol="p",
        caption="Confidence: inputs by the lower bound of p_A, the probability of the answer under noise",
    )


@looks()
def confidence_figure(runs: Sequence[Certificates]) -> Figure | None:
    """P(p_A >= p) of the runs whose p_A is known, from p = 1/2 to 1; None if there is none."""
    labels, styles = drawn_labels(runs), run_styles(runs)
    known = [place for place, c in enumerate(runs) if has_confidence(c)]
    if not known:
        return None
    curve_name([runs[place] for place in known])  # refuses those with labels beside those without
    figure, (axes,) = new_figure()
    for i in known:
        line(axes, *p_curve(runs[i]), labels[i], styles[i], i)
    kind = "correct" if runs[0].labelled else "answered"
    top = axis_top([runs[place] for place in known])[1]
    axes.set(xlim=(0.5, 1.0), ylim=(0.0, top), xlabel="confidence p")
    axes.set_ylabel(f"{kind} with confidence ≥ p")
    percent(axes.yaxis)
    legend(figure)
    summary = "; ".join(
        f"{labels[i]}: {in_percent(float(p_ecdf(runs[i], 0.99)), proved(runs))} % have p of at least 0.99"
        for i in known
    )
    figure.set_label(
        f"Confidence. Share of inputs {answered(runs)} with a lower bound of p_A of at least p. {summary}."
    )
    return figure


def _draw(report: Report) -> Figure:
    figure = confidence_figure(report.runs)
    if figure is None:
        raise no_confidence(report.runs, "a drawing")
    return figure


def _reading(report: Report) -> Reading:
    runs, p = report.runs, np.arange(500, 1000) / 1000
    known = [i for i, c in enumerate(runs) if has_confidence(c)]
    return reading(p, 400, "p", 3, known, lambda i: p_ecdf(runs[i], p), proved(runs))


def _how(report: Report) -> str:
    runs = report.runs
    right = " correctly" if report.labelled else ""
    text = (
        f"The share of inputs that are answered{right} with a lower bound of p_A, the probability of the answer under "
        "noise, of at least p. The bound decides the radius"
    )
    if all(c.law == "gaussian" and c.norm == "l2" for c in runs):
        text += ", σ Φ⁻¹(p_A), which grows without limit as p_A nears 1"
    text += ", and the mean radius with it: this view gives the last per cent no more room than any other."
    if len({c.sigma for c in runs}) > 1:
        text += " Compare runs of one σ: more noise makes every classifier less confident."
    return text


VIEW = View(
    "confidence",
    "Confidence",
    "the distribution of the probability of the answer under noise",
    lambda report: [confidence_table(report.runs, report.options.intervals)],
    _draw,
    _how,
    reading=_reading,
)
