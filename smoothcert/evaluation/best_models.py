"""Tables whose rows are no models but the best of many, radius by radius: ours beside what is printed.

The models are rows of other tables, and lie where those would put them. They are certified on as many images as the
table of the best has, so that a model may have two stores.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from smoothcert.data import DATASETS
from smoothcert.errors import ConfigError
from smoothcert.evaluation.reproduce import Job, outcome
from smoothcert.evaluation.tables import RowJob, check_rows, row_job
from smoothcert.published.catalogue import BestRow, Table, TableRow
from smoothcert.published.rows import published_row
from smoothcert.report import read_store
from smoothcert.report.measures.envelope import upper_envelope


@dataclass(frozen=True)
class Contest:
    """A row and the models that it is the best of, each with the table that it is from."""

    row: BestRow
    models: tuple[tuple[Table, RowJob], ...]


def plan_best(
    table: Table,
    out: Path,
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    every: int | None = None,
    dataset: str | None = None,
) -> list[Contest]:
    """The models of the rows of a table (or those whose label matches `rows`), maybe on another data set."""
    if len(seeds) > 1:
        raise ConfigError(
            f"{table.name} takes the best model for each radius; of several seeds the luckiest would win: give one seed"
        )
    check_rows(table, rows, {row.label for row in table.best})
    chosen = [
        row
        for row in table.best
        if not rows or any(fnmatch.fnmatch(row.label, pattern) for pattern in rows)
    ]
    if not any(row.of for row in chosen):
        raise ConfigError(
            f"{', '.join(row.label for row in chosen)}: {table.name} quotes this from elsewhere, so there is nothing "
            "to train; give other --rows"
        )

    def job(row: BestRow, model: TableRow) -> RowJob:
        step = 1 if dataset else DATASETS[model.dataset].test_size // row.inputs
        return RowJob(
            model, row_job(model, out, seeds[0], step if every is None else every, dataset)
        )

    return [
        Contest(row, tuple((source, job(row, model)) for source, model in row.models))
        for row in chosen
        if row.of
    ]


def best_outcomes(
    table: Table,
    contests: Sequence[Contest],
    done: Collection[Job],
    train: Sequence[str],
    certify: Sequence[str],
    comparable: bool,
) -> list[dict[str, Any]]:
    """For each row the winner at every radius, among the models that are done, and the outcome of each of these.

    `comparable` says whether they were trained as their tables say.
    """
    found = []
    for contest in contests:
        runs = []
        for source, planned in contest.models:
            printed = published_row(source, planned.row)
            if planned.job in done and (
                result := outcome(
                    planned.job, train, certify, table.radii, printed, comparable=comparable
                )
            ):
                runs.append((planned, {"table": source.name, "row": planned.row.label, **result}))
        if not runs:
            continue
        stores = [read_store(planned.job.store) for planned, _ in runs]
        winners = upper_envelope(stores, table.radii, rounded=True)
        if not winners:  # all of them answer one class
            continue
        best = [
            {
                "radius": winner.radius,
                "certified_accuracy": winner.accuracy,
                "clean_accuracy": winner.clean,
                "abstention": winner.abstention,
                "model": runs[winner.run][1]["row"],
                "recipe": runs[winner.run][1]["recipe"],
            }
            for winner in winners
        ]
        models = {"models": len(runs), "of": len(contest.models)}
        found.append(
            {
                "table": table.name,
                "row": contest.row.label,
                **models,
                "best": best,
                "runs": [run for _, run in runs],
            }
        )
    return found


def best_table(table: Table, outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: each row as printed, and below it ours; then which models ours are."""
    lines = [
        "| " + " | ".join(["setup", "", *table.head]) + " |",
        "|---" * (2 + len(table.head)) + "|",
    ]
    winners = []
    for row in table.best:
        printed = row.printed_cells(table.digits) or ["-"] * len(table.head)
        lines.append("| " + " | ".join([row.label, "published", *printed]) + " |")
        own = next((entry for entry in outcomes if entry["row"] == row.label), None)
        if own is None:
            continue
        percent = {
            key: tuple(100 * cell[key] for cell in own["best"])
            for key in ("certified_accuracy", "clean_accuracy", "abstention")
        }
        ours = dataclasses.replace(
            row,
            accuracy=() if row.abstention else percent["certified_accuracy"],
            clean=percent["clean_accuracy"] if row.clean else (),
            abstention=percent["abstention"] if row.abstention else (),
        )
        which = f"ours, best of {own['models']}"
        which += "" if own["models"] == own["of"] else f" of {own['of']} models"
        none = "-" if row.abstention else "0.0"  # where nothing is certified, no model is the best
        cells = [
            cell if won["certified_accuracy"] > 0 else none
            for cell, won in zip(ours.printed_cells(1), own["best"], strict=True)
        ]
        lines.append("| " + " | ".join(["", which, *cells]) + " |")
        winners.append(f"- {row.label}, ours: {', '.join(_named(table.head, own['best']))}")
    notes = [*winners, *(f"- {note}" for note in table.notes)]
    return "\n".join([f"{table.title} ({table.cited})", "", *lines, "", *notes]) + "\n"


def _named(head: Sequence[str], best: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which model is the best from where to where; where none has a certificate, none is named."""
    known = [
        (name, cell)
        for name, cell in zip(head, best, strict=True)
        if cell["certified_accuracy"] > 0
    ]
    found = []
    for (model, recipe), stretch in groupby(
        known, key=lambda entry: (entry[1]["model"], entry[1]["recipe"])
    ):
        names = [name for name, _ in stretch]
        where = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        found.append(f"{where} by {model} (`{recipe}`)")
    return found or ["no certificate"]
