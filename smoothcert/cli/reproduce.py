"""`smoothcert reproduce`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_machine,
    add_numbers,
    on_disk,
    option,
    read_whole_numbers,
)
from smoothcert.config import ALPHA, N0, N, check_seed
from smoothcert.errors import ConfigError, SmoothcertError, StoreError
from smoothcert.progress import noun

if TYPE_CHECKING:
    from smoothcert.evaluation.collected import Collected, Entry
    from smoothcert.evaluation.reproduce import Job
    from smoothcert.published.catalogue import Table

UNLIKE = "Trained with other epochs or on other data than published, so that the values are not comparable."

ABOUT = "Train, certify and tabulate whole published tables; resumable, several runs at once."


def add_options(parser: ArgumentParser) -> None:
    named = "a table (`smoothcert tables`), or a data set whose recipes to run: mnist, fashion-mnist, cifar10, ..."
    parser.add_argument("what", type=str, help=named)
    rows = "only these, e.g. gaussian-0.50 'smoothmix-*'; of a table by label or recipe, e.g. 'eta = *'"
    parser.add_argument("--rows", type=str, nargs="+", default=[], help=rows)
    add_numbers(parser, ("--seeds",), "seeds, e.g. 0 1 2 (default: 0)")
    out = "folder for the runs, results.json and results.md"
    option(parser, "--out", Path, Path("reproduce"), out)
    jobs = "trainings at a time on this machine; certification comes after, two by two"
    option(parser, "--jobs", int, 1, jobs)
    option(parser, "--epochs", int, None, "fewer epochs, for a first look")
    data = "run the rows of a table on other data, for a first look"
    option(parser, "--dataset", str, None, data)
    every = "certify every k-th test image; default: all, or as many as the table has"
    option(parser, "--every", int, None, every)
    option(parser, "--max", int, None, "certify at most this many")
    option(parser, "--n", int, N, "noise samples per image")
    judge = "folders with certified runs: measure those that are rows, and run nothing"
    parser.add_argument("--judge", type=on_disk, nargs="+", default=None, help=judge)
    logs = "folders with the authors' logs, image by image"
    parser.add_argument("--logs", type=on_disk, nargs="+", default=[], help=logs)
    option(parser, "--results", Path, None, "file of lines to add to; default: OUT/results.jsonl")
    add_machine(parser)


def run(options: Options) -> None:
    if options.judge is not None:
        _judge(options)
        return
    seeds = tuple(dict.fromkeys(read_whole_numbers(options.seeds, "--seeds"))) or (0,)  # each once
    _check(options, seeds)
    machine = [
        "--device",
        options.device,
        *(["--data-dir", str(options.data_dir)] if options.data_dir else []),
    ]
    train = [*machine, *([] if options.epochs is None else ["--epochs", str(options.epochs)])]
    certify = ["--n", str(options.n), *([] if options.max is None else ["--max", str(options.max)])]
    if "/" in options.what:
        failures = _table(options, seeds, train, [*machine, *certify])
    else:
        failures = _recipes(
            options, seeds, train, [*machine, "--every", str(options.every or 1), *certify]
        )
    if failures:
        raise SmoothcertError("; ".join(failures))


def _judge(options: Options) -> None:
    """Lines of the runs that are there; neither weights nor a GPU are needed."""
    from smoothcert.evaluation.measure import FREE, measure_runs
    from smoothcert.published.measured import Measured, add_measured

    def wanted(measured: Measured) -> str:
        made = measured.made
        if not made.recipe.startswith(f"{options.what}/"):
            return f"a run of {made.recipe}, not of {options.what}"
        other = [f"{name} = {value}" for name, value in made.changes.items() if name not in FREE]
        return f"not as recipe {made.recipe}: {', '.join(other)}" if other else ""

    found, left_out = measure_runs(options.judge, wanted, options.logs)
    for reason in left_out:
        print(f"left out: {reason}")
    if not found:
        raise SmoothcertError(f"no certified run of {options.what} was found")
    path = options.results or options.out / "results.jsonl"
    add_measured(path, found)
    for each in found:
        acr = next((value.value for value in each.values if value.measure == "ACR"), math.nan)
        printed = ", as printed" if each.made.as_printed else ""
        print(f"{each.made.recipe}{printed}, seed {each.made.seed}: ACR {acr:.4f}")
    print(f"added {len(found)} {noun(len(found), 'line')} to {path}")


def _check(options: Options, seeds: Sequence[int]) -> None:
    """Refuse what `train` and `certify` would refuse, before the first of them is started."""
    from smoothcert.statistics.bounds import check_samples

    for name in ("jobs", "epochs", "every", "max"):
        if options[name] is not None and options[name] < 1:
            raise ConfigError(f"--{name} must be at least 1, found {options[name]}")
    for seed in seeds:
        check_seed("each of --seeds", seed)
    check_samples(N0, options.n, ALPHA)
    places = (options.out.absolute(), *options.out.absolute().parents)
    there = next(place for place in places if place.exists())
    if not there.is_dir():
        raise ConfigError(
            f"--out must be a folder, or the name of one to make, but {there} is a file"
        )


def _recipes(
    options: Options, seeds: Sequence[int], train: list[str], certify: list[str]
) -> list[str]:
    """The recipes of a data set; returns what went wrong."""
    from smoothcert.evaluation.reproduce import outcome, plan, results_table

    if options.dataset is not None:
        raise ConfigError(
            f"--dataset is for the rows of a table; {options.what} names its data set itself"
        )
    folder = options.out / options.what
    jobs = plan(options.what, folder, options.rows, seeds)
    rows = [job.named for job in plan(options.what, folder, ["*"])]
    collected = _collected(options, rows, [job.named for job in jobs])
    done, failures = _run(options, jobs, train, certify)
    made = [outcome(job, train, certify, comparable=_as_published(options)) for job in done]
    outcomes = [found for found in made if found is not None]
    return [*failures, *_write(options, collected, outcomes, results_table)]


def _table(
    options: Options, seeds: Sequence[int], train: list[str], certify: list[str]
) -> list[str]:
    """A table of the catalogue; returns what went wrong."""
    from smoothcert.evaluation.tables import (
        check_files,
        comparison_table,
        plan_table,
        table_outcomes,
    )
    from smoothcert.published.catalogue import load_table

    table = load_table(options.what)
    if table.reason:
        raise ConfigError(f"{table.name} cannot be made: {table.reason}")
    if table.best:
        return _best(table, options, seeds, train, certify)
    jobs = plan_table(table, options.out, options.rows, seeds, options.every, options.dataset)
    check_files(planned.row for planned in jobs)
    rows = [{"table": table.name, "row": row.label, "recipe": row.recipe} for row in table.rows]
    collected = _collected(options, rows, [planned.named(table) for planned in jobs])
    done, failures = _run(options, [planned.job for planned in jobs], train, certify)
    made = [each for each in jobs if each.job in done]
    outcomes = table_outcomes(table, made, train, certify, _as_published(options))
    return [*failures, *_write(options, collected, outcomes, partial(comparison_table, table))]


def _best(
    table: Table, options: Options, seeds: Sequence[int], train: list[str], certify: list[str]
) -> list[str]:
    """A table of best models; returns what went wrong."""
    from smoothcert.evaluation.best_models import best_outcomes, best_table, plan_best
    from smoothcert.evaluation.tables import check_files

    contests = plan_best(table, options.out, options.rows, seeds, options.every, options.dataset)
    models = [planned for contest in contests for _, planned in contest.models]
    check_files(planned.row for planned in models)
    rows, planned_rows = (
        [{"table": table.name, "row": row.label} for row in rows]
        for rows in (table.best, [contest.row for contest in contests])
    )
    collected = _collected(options, rows, planned_rows, seeds=list(seeds))
    runs = {planned.job.folder for planned in models}
    before = {planned.job.starts_from.folder for planned in models if planned.job.starts_from}
    first = f", after {len(before)} {noun(len(before), 'run')} of pre-training" if before else ""
    which = "1 model, which is" if len(runs) == 1 else f"{len(runs)} models: all are"
    print(f"{table.name} is the best of {which} trained and certified{first}", flush=True)
    done, failures = _run(options, [planned.job for planned in models], train, certify)
    outcomes = best_outcomes(table, contests, done, train, certify, _as_published(options))
    return [*failures, *_write(options, collected, outcomes, partial(best_table, table))]


def _collected(
    options: Options, rows: Sequence[Entry], planned: Sequence[Entry], **others: Any
) -> Collected:
    """The file of all rows that are made with these options, refused before training if it has others."""
    from smoothcert.evaluation.collected import Collected, key_of, row_of

    given = {name: options[name] for name in ("epochs", "dataset", "every", "max", "n")}
    path = options.out / options.what / "results.json"
    collected = Collected(path, [row_of(row) for row in rows], {**given, **others})
    collected.kept([key_of(entry) for entry in planned])
    return collected


def _run(
    options: Options, jobs: Sequence[Job], train: list[str], certify: list[str]
) -> tuple[list[Job], list[str]]:
    """Those that were done, and what went wrong with the others; all are refused at once where there is no data."""
    from smoothcert.evaluation.reproduce import check_data, run_jobs

    check_data(jobs, options.data_dir)
    for job in jobs:
        _check_store(job, n=options.n, every=job.every or options.every or 1)
    return run_jobs(jobs, train, certify, options.jobs)


def _check_store(job: Job, **asked: int) -> None:
    """Certificates that could not be continued are told before hours of training."""
    from smoothcert.runs.store import ResultStore

    store = ResultStore(job.store)
    there = store.manifest().identity if store.exists else {}
    unlike = [
        f"{name} = {there[name]}, not {asked[name]}"
        for name in asked
        if there.get(name, asked[name]) != asked[name]
    ]
    if unlike:
        raise StoreError(
            f"{job.store} was certified with {' and '.join(unlike)}: give the same, or another --out, where copies of "
            "the runs need no training"
        )


def _as_published(options: Options) -> bool:
    """Whether runs are trained as their tables say."""
    return options.epochs is None and options.dataset is None


def _measured(options: Options) -> list[str]:
    """With what ours were certified, where it is not as published: rows of tables name neither inputs nor n."""
    given = [f"--{name} {options[name]}" for name in ("every", "max") if options[name] is not None]
    given += [f"--n {options.n}"] if options.n != N else []
    if not given:
        return []
    from smoothcert.published.rows import budget

    theirs = f"n = {budget().n:,}, on as many images as the papers say"
    return [f"Ours were certified with {' '.join(given)}; published: {theirs}."]


def _write(
    options: Options,
    collected: Collected,
    outcomes: list[dict[str, Any]],
    table: Callable[[Sequence[dict[str, Any]]], str],
) -> list[str]:
    """The files outlive the command, so that they say it where runs were not trained as published."""
    if not outcomes:  # what an earlier command has written stays
        return []
    unlike = [] if _as_published(options) else [UNLIKE]
    note = "".join(f"\n{text}\n" for text in (*unlike, *_measured(options)))
    try:
        text = collected.add(outcomes, lambda found: table(found) + note)
    except (
        StoreError
    ) as error:  # rows of other options were to be made again, and failed: told beside the failure
        return [str(error)]
    print(text)
    print(f"wrote {collected.path} and results.md")
    return []
