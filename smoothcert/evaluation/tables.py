"""A table of the catalogue, made again: its rows as jobs, and ours beside what is printed.

Runs lie in OUT/DATASET/ROW/SEED, wherever they are needed, so that several tables share the runs that they have in
common with each other and with `reproduce DATASET`.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from smoothcert.data import DATASETS
from smoothcert.data.corruptions import CORRUPTIONS, SEVERITIES
from smoothcert.errors import ConfigError, unknown_name
from smoothcert.evaluation.reproduce import Job, outcome
from smoothcert.methods import build_method
from smoothcert.published.catalogue import Table, TableRow
from smoothcert.published.rows import published_row

WORDS = {True: "yes", False: "**no**", None: "-"}


@dataclass(frozen=True)
class RowJob:
    row: TableRow
    job: Job

    def named(self, table: Table) -> dict[str, Any]:
        """What its outcome is called by."""
        return {"table": table.name, "row": self.row.label, **self.job.named}


def plan_table(
    table: Table,
    out: Path,
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    every: int | None = None,
    dataset: str | None = None,
) -> list[RowJob]:
    """Jobs for the rows of a table (or those whose label or recipe matches `rows`), maybe on another data set."""
    if table.corruptions and dataset is not None:
        raise ConfigError(
            f"{table.name} is about {table.corruptions}: it cannot be made on other data ({dataset})"
        )
    check_rows(table, rows, {name for row in table.rows for name in (row.label, row.recipe)})
    chosen = [
        row for row in table.rows if not rows or any(_matches(row, pattern) for pattern in rows)
    ]
    return [
        RowJob(
            row,
            row_job(
                row,
                out,
                seed,
                _every(row, table, dataset) if every is None else every,
                dataset,
                corruption,
            ),
        )
        for row in chosen
        for seed in seeds
        for corruption in _corruptions(table)
    ]


def check_rows(table: Table, patterns: Sequence[str], names: Collection[str]) -> None:
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise unknown_name(f"row of {table.name}", pattern, names)


def check_files(rows: Iterable[TableRow]) -> None:
    """Refuse rows that train on a file which nothing here makes and which is not there."""
    places = {
        row.settings["self_training"]["path"]: row.recipe
        for row in rows
        if "self_training" in row.settings
    }
    for place, recipe in places.items():
        if not Path(place).is_file():
            raise ConfigError(
                f"{recipe} trains on the pseudo-labelled images of {place}, which is not in this folder: put it or a "
                "link to it here (docs/methods.md, Self-training), or leave such rows out by --rows"
            )


def _matches(row: TableRow, pattern: str) -> bool:
    return fnmatch.fnmatch(row.label, pattern) or fnmatch.fnmatch(row.recipe, pattern)


def _every(row: TableRow, table: Table, dataset: str | None) -> int:
    """The step that gives as many images as the table has."""
    if dataset is not None:
        return 1
    images = 10_000 if table.corruptions else DATASETS[row.dataset].test_size
    return row.every or images // row.inputs


def _corruptions(table: Table) -> Sequence[tuple[str, int | None] | None]:
    if not table.corruptions:
        return [None]
    graded = table.corruptions == "cifar10-c"
    severities = [table.severity] if table.severity or not graded else SEVERITIES
    return [(kind, severity) for severity in severities for kind in CORRUPTIONS[table.corruptions]]


def row_job(
    row: TableRow,
    out: Path,
    seed: int,
    every: int,
    dataset: str | None = None,
    corruption: tuple[str, int | None] | None = None,
) -> Job:
    other = {} if dataset in (None, row.dataset) else {"dataset": dataset}
    changes = {**row.change, **other}
    shared = None
    if build_method(row.settings["method"]).uses_soft_labels:
        # another network or other data have soft labels of their own
        others: dict[str, Any] = {
            key: changes[key] for key in ("model", "dataset") if key in changes
        }
        shared = out / row.dataset / ",".join(["soft-labels", *_words(others)])
    first = None
    if row.starts_from:
        recipe, before = row.starts_from["recipe"], {**row.starts_from.get("change", {}), **other}
        first = Job(recipe, seed, _folder(out, recipe, before, seed), changes=before)
    folder = _folder(out, row.recipe, changes, seed)
    return Job(row.recipe, seed, folder, shared, changes, every, corruption, first)


def _folder(out: Path, recipe: str, changes: Mapping[str, Any], seed: int) -> Path:
    dataset, _, name = recipe.partition("/")
    return out / dataset / ",".join([name, *_words(changes)]) / f"seed{seed}"


def _words(changes: Mapping[str, Any]) -> list[str]:
    flat: dict[str, Any] = {
        key: value for key, value in changes.items() if not isinstance(value, Mapping)
    }
    for values in changes.values():
        flat |= values if isinstance(values, Mapping) else {}
    # of data of one's own the last part of its path, since names of folders are limited
    return [
        re.sub(r"[^\w.=-]", "", f"{key}={str(value).rpartition('/')[2]}")
        for key, value in flat.items()
    ]


def table_outcomes(
    table: Table,
    jobs: Sequence[RowJob],
    train: Sequence[str],
    certify: Sequence[str],
    comparable: bool,
) -> list[dict[str, Any]]:
    """The outcome of each finished job, with its row; `comparable` says whether runs have the settings of the table."""
    found = []
    for planned in jobs:
        printed = published_row(table, planned.row)
        decided = comparable and not table.corruptions
        result = outcome(planned.job, train, certify, table.radii, printed, comparable=decided)
        if result is not None:
            found.append({**planned.named(table), **result})
    return found


def comparison_table(table: Table, outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: each row of the table as printed, and below it ours, as the mean over seeds where there are several.

    A line below has the differences, where ours were measured as the row was.
    """
    acr = [] if table.columns else ["ACR"]
    lines = [
        "| " + " | ".join(["σ", "setup", "", *acr, *table.head, "reproduced"]) + " |",
        "|---" * (4 + len(acr) + len(table.head)) + "|",
    ]
    for row in table.rows:
        own = [
            entry
            for entry in outcomes
            if (entry["row"], entry["recipe"]) == (row.label, row.recipe)
        ]
        sigma = f"{row.settings['sigma']:g}"
        printed = [row.printed_acr()] if acr else []
        cells = [*printed, *(row.printed_cells(table) or ["-"] * len(table.head))]
        lines.append("| " + " | ".join([sigma, row.label, "published", *cells, ""]) + " |")
        if not own:
            continue
        seeds = sorted({entry["seed"] for entry in own})
        values = [_ours(table, [entry for entry in own if entry["seed"] == seed]) for seed in seeds]
        cells = [
            _printed(table, column, each)
            for column, each in enumerate(zip(*values, strict=True), -len(acr))
        ]
        verdicts = " ".join(WORDS[entry["published"]["reproduced"]] for entry in own[: len(seeds)])
        which = "ours" if len(seeds) == 1 else f"ours, {len(seeds)} seeds"
        lines.append("| " + " | ".join(["", "", which, *cells, verdicts]) + " |")
        if own[0]["published"]["reproduced"] is not None:
            lines.append(
                "| " + " | ".join(["", "", "difference", *_differences(row, values), ""]) + " |"
            )
    notes = [f"- {note}" for note in table.notes]
    return (
        "\n".join([f"{table.title} ({table.cited})", "", *lines, *(["", *notes] if notes else [])])
        + "\n"
    )


def _ours(table: Table, entries: Sequence[Mapping[str, Any]]) -> list[float]:
    """The numbers of one seed in the order of the columns: ACR, then accuracies in %; or those of the corruptions."""
    if not table.columns:
        (entry,) = entries
        return [
            entry["acr"],
            *(100 * entry["certified_accuracy"][f"{radius:g}"] for radius in table.radii),
        ]
    measures = {
        "acr": {(entry["corruption"], entry["severity"]): entry["acr"] for entry in entries},
        "accuracy": {
            (entry["corruption"], entry["severity"]): 100 * entry["certified_accuracy"]["0"]
            for entry in entries
        },
    }
    if table.measure:
        values = measures[table.measure]
        own = [
            values.get((kind, table.severity), math.nan) for kind in table.columns if kind != "mean"
        ]
        return [*own, mean(own)]
    cells = []
    for (
        values
    ) in measures.values():  # the table of all severities: means over the types, then over all
        kinds = CORRUPTIONS[table.corruptions]
        graded = [
            mean(values.get((kind, severity), math.nan) for kind in kinds)
            for severity in SEVERITIES
        ]
        cells += [*graded, mean(graded)]
    return cells


def _differences(row: TableRow, values: Sequence[Sequence[float]]) -> list[str]:
    """Ours, the mean over seeds, minus what is printed: of the ACR, then of the accuracies, in points."""
    printed = [row.acr if row.mean is None else row.mean, *row.accuracy]
    return [
        "-" if theirs is None else f"{mean(ours) - theirs:+.{1 if place else 4}f}"
        for place, (ours, theirs) in enumerate(zip_longest(zip(*values, strict=True), printed))
    ]


def _printed(table: Table, column: int, values: Sequence[float]) -> str:
    """Column -1 is the ACR of a table with radii; a value that waits for a run that is not finished is a dash."""
    if math.isnan(mean(values)):
        return "-"
    percent = column >= 0 and (not table.columns or table.in_percent(column))
    digits = (1 if percent else 3) if len(values) == 1 else (2 if percent else 4)
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {stdev(values):.{digits}f}"
