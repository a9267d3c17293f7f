"""`smoothcert reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from smoothcert.cli import frame
from smoothcert.cli.frame import command
from smoothcert.config import CertifyConfig, check_seed
from smoothcert.errors import ConfigError, SmoothcertError, StoreError
from smoothcert.progress import noun

if TYPE_CHECKING:
    from smoothcert.evaluation.collected import Collected, Entry
    from smoothcert.evaluation.reproduce import Job
    from smoothcert.recipes.tables import Table

UNLIKE = "Trained with other epochs or on other data than published, so that the values are not comparable."


@dataclass(frozen=True)
class Options:
    """What is to be made."""

    what: str
    rows: tuple[str, ...] = ()
    """only these, e.g. gaussian-0.50 'smoothmix-*'; of a table by label or recipe, e.g. 'eta = *'"""
    seeds: tuple[int, ...] = (0,)
    """seeds, e.g. 0 1 2"""
    out: Path = Path("reproduce")
    """folder for the runs, results.json and results.md"""
    jobs: int = 1
    """trainings at a time on this machine; certification comes after, two by two"""
    epochs: int | None = None
    """fewer epochs, for a first look"""
    data: str | None = None
    """run the rows of a table on other data, for a first look"""
    every: int | None = None
    """certify every k-th test image; default: all, or as many as the table has"""
    max: int | None = None
    """certify at most this many"""
    n: int = CertifyConfig.n
    """noise samples per image"""
    data_dir: Path | None = None
    """where data sets are; else $SMOOTHCERT_DATA"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N"""


@command("The papers")
def reproduce(what: str, /, *, asked: Annotated[dict[str, Any], frame.Options(Options)]) -> None:
    """Make a published table again, beside its values

    Args:
        what: a table (`smoothcert list tables`), or a data set whose recipes to run: mnist, fashion-mnist, ...
    """
    options = Options(what, **asked)
    seeds = tuple(dict.fromkeys(options.seeds))  # each once
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


def _check(options: Options, seeds: Sequence[int]) -> None:
    """Refuse what `train` and `certify` would refuse, before the first of them is started."""
    from smoothcert.statistics.bounds import check_samples

    for name in ("jobs", "epochs", "every", "max"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ConfigError(f"--{name} must be at least 1, found {getattr(options, name)}")
    for seed in seeds:
        check_seed("each of --seeds", seed)
    check_samples(CertifyConfig.n0, options.n, CertifyConfig.alpha)
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

    if options.data is not None:
        raise ConfigError(
            f"--data is for the rows of a table; {options.what} names its data set itself"
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
    from smoothcert.recipes.tables import load_table

    table = load_table(options.what)
    if table.reason:
        raise ConfigError(f"{table.name} cannot be made: {table.reason}")
    if table.best:
        return _best(table, options, seeds, train, certify)
    jobs = plan_table(table, options.out, options.rows, seeds, options.every, options.data)
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

    contests = plan_best(table, options.out, options.rows, seeds, options.every, options.data)
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

    given = {name: getattr(options, name) for name in ("epochs", "data", "every", "max", "n")}
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
    return options.epochs is None and options.data is None


def _measured(options: Options) -> list[str]:
    """With what ours were certified, where it is not as published: rows of tables name neither inputs nor n."""
    given = [
        f"--{name} {getattr(options, name)}"
        for name in ("every", "max")
        if getattr(options, name) is not None
    ]
    given += [f"--n {options.n}"] if options.n != CertifyConfig.n else []
    if not given:
        return []
    from smoothcert.recipes.published import budget

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
