"""Ours beside what is printed, as Markdown: a whole table, or the ACR of each recipe."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from smoothcert.published.catalogue import PaperTable, rows_for
from smoothcert.published.judge import Verdict
from smoothcert.published.ledger import EXACT, Entry, entry_of
from smoothcert.published.measured import Measured
from smoothcert.published.speeds import Speeds
from smoothcert.statistics.value import ACR

FREE = {"seed", "precision", "evaluate_every", "kernels"}
"""Settings of a training that no paper is about."""


def compared_table(table: PaperTable, measured: Sequence[Measured]) -> str:
    """Each row as it is printed, and below it the difference of ours with the half width of its interval."""
    head = ["σ", "setup", "", *table.head, "verdict"]
    lines, notes = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"], list(table.notes)
    speeds = Speeds(())
    for row in table.rows:
        sigma = f"{row.settings['sigma']:g}" if row.recipe else ""
        lines.append(f"| {' | '.join([sigma, row.label, 'published', *table.cells(row), ''])} |")
        for as_printed in (False, True):
            entry = entry_of(row, measured, as_printed, speeds)
            if not entry.runs:
                continue
            which = f"ours, {entry.seeds} {'seed' if entry.seeds == 1 else 'seeds'}"
            which += " as printed" * as_printed
            cells = ["", "", f"{which}: difference", *_cells(table, entry), entry.word]
            lines.append(f"| {' | '.join(cells)} |")
            if entry.reason:
                notes.append(f"{row.label}: {entry.reason}")
    told = ["", *(f"- {note}" for note in dict.fromkeys(notes))] if notes else []
    return "\n".join([f"{table.title} ({table.cited})", "", *lines, *told]) + "\n"


def _cells(table: PaperTable, entry: Entry) -> list[str]:
    verdicts = {v.place: d for v, d in zip(entry.row.printed, entry.verdicts, strict=True)}
    places = [(ACR, None, "")] if "ACR" in table.head else []
    return [
        _shown(verdicts.get(place), place[0] != ACR) for place in [*places, *_columns(table, entry)]
    ]


def _columns(table: PaperTable, entry: Entry) -> list[tuple[str, float | None, str]]:
    """What stands in each column of a row, which may be how often the best model abstains."""
    own = [value.place for value in entry.row.printed]
    return [
        next((p for p in own if p == column[1:]), None)
        or next((p for p in own if p[1] == column.r and p[0] != ACR), column[1:])
        for column in table.columns
    ]


def _shown(verdict: Verdict | None, share: bool) -> str:
    """In points or in units of the radius; in brackets where it says nothing, bold where it differs."""
    if verdict is None or math.isnan(verdict.difference):
        return "-"
    unit, digits = (100, 1) if share else (1, 4)
    text = f"{unit * verdict.difference:+.{digits}f}"
    if not math.isnan(verdict.half):
        text += f" ± {unit * verdict.half:.{digits}f}"
    marks = {"different": "**{}**", "not judged": "({})"}
    return marks.get(verdict.word, "{}").format(text)


def compared_recipes(measured: Sequence[Measured], recipes: Iterable[str] = ()) -> str:
    """A line for each training, over its seeds: its ACR beside a printed one, of most seeds if possible."""
    head = ("recipe", "seeds", "images", "ACR", "published", "difference", "verdict")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    groups: dict[str, list[Measured]] = {}
    for run in measured:
        kept = {name: value for name, value in run.config.items() if name not in FREE}
        about = {
            name: run.settings.get(name) for name in ("n", "every", "start", "images", "split")
        }
        groups.setdefault(json.dumps([kept, about, run.made.recipe], sort_keys=True), []).append(
            run
        )
    wanted = {name: place for place, name in enumerate(recipes)}
    for runs in sorted(groups.values(), key=lambda runs: _order(runs[0], wanted)):
        if not wanted or runs[0].made.recipe in wanted:
            lines.append(_line(list({run.made.seed: run for run in runs}.values())))
    return "\n".join(lines) + "\n"


def _order(run: Measured, wanted: dict[str, int]) -> tuple[object, ...]:
    place = wanted.get(run.made.recipe, 0), run.config["dataset"], run.config["sigma"]
    return (*place, run.made.recipe, run.made.as_printed, str(run.made.changes))


def _line(runs: Sequence[Measured]) -> str:
    made, values = runs[0].made, [value for run in runs for value in run.values]
    acrs = [value.value for value in values if value.place == (ACR, None, "")]
    own = f"{fmean(acrs):.4f}" if acrs else "-"
    own += f" ± {stdev(acrs):.4f}" if len(acrs) > 1 else ""
    images = runs[0].settings["images"]
    printed = [(row, row.acr) for row in rows_for(runs[0].config) if row.acr]
    same = [entry for entry in printed if entry[0].images == images] or printed
    row, acr = max(same, key=lambda entry: entry[1].seeds, default=(None, None))
    name = f"`{made.recipe}`" + " as printed" * made.as_printed
    name += " †" * any(run.settings["noise"] != EXACT for run in runs)
    cells = [name, str(len(runs)), f"{images:,}", own]
    if row is None or acr is None:
        return f"| {' | '.join([*cells, '-', '-', '-'])} |"
    entry = entry_of(row, runs, made.as_printed, Speeds(()))
    verdict = entry.verdicts[[value.place for value in row.printed].index((ACR, None, ""))]
    word = verdict.word if verdict.word != "not judged" else f"not judged: {verdict.reason}"
    theirs = row.text(acr) + (f" ({acr.seeds} seeds)" if acr.seeds > 1 else "")
    shown = _shown(verdict._replace(word="reproduced"), share=False)
    return f"| {' | '.join([*cells, theirs, shown, word])} |"
