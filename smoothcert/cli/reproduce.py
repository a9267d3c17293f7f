"""`smoothcert reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_machine, add_numbers, option, read_whole_numbers
from smoothcert.config import N
from smoothcert.errors import ConfigError, SmoothcertError

if TYPE_CHECKING:
    from smoothcert.recipes.tables import Table

UNLIKE = "Trained with other epochs or on other data than published, so that the values are not comparable."

ABOUT = "Train, certify and tabulate whole published tables; resumable, several runs at once."


def add_options(parser: ArgumentParser) -> None:
    named = "a table (`smoothcert tables`), or a data set whose recipes to run: mnist, fashion-mnist, cifar10, ..."
    parser.add_argument("what", type=str, help=named)
    rows = "only these, e.g. gaussian-0.50 'smoothmix-*'; of a table by label or recipe, e.g. 'eta = *'"
    parser.add_argument("--rows", type=str, nargs="+", default=[], help=rows)
    add_numbers(parser, ("--seeds",), "seeds, e.g. 0 1 2 (default: 0)")
    option(parser, "--out", Path, Path("reproduce"), "folder for the runs, results.json and results.md")
    option(parser, "--jobs", int, 1, "trainings at a time on this machine; certification comes after, two by two")
    option(parser, "--epochs", int, None, "fewer epochs, for a first look")
    option(parser, "--dataset", str, None, "run the rows of a table on other data, for a first look")
    option(parser, "--every", int, None, "certify every k-th test image; default: all, or as many as the table has")
    option(parser, "--max", int, None, "certify at most this many")
    option(parser, "--n", int, N, "noise samples per image")
    add_machine(parser)


def run(options: Options) -> None:
    seeds = read_whole_numbers(options.seeds, "--seeds") or (0,)
    machine = ["--device", options.device, *(["--data-dir", str(options.data_dir)] if options.data_dir else [])]
    train = [*machine, *(["--epochs", str(options.epochs)] if options.epochs else [])]
    certify = ["--n", str(options.n), *(["--max", str(options.max)] if options.max else [])]
    if "/" in options.what:
        failures = _table(options, seeds, train, [*machine, *certify])
    else:
        failures = _recipes(options, seeds, train, [*machine, "--every", str(options.every or 1), *certify])
    if failures:
        raise SmoothcertError("; ".join(failures))


def _recipes(options: Options, seeds: Sequence[int], train: list[str], certify: list[str]) -> list[str]:
    """The recipes of a data set; returns what went wrong."""
    from smoothcert.evaluation.reproduce import outcome, plan, results_table, run_jobs

    if options.dataset is not None:
        raise ConfigError(f"--dataset is for the rows of a table; {options.what} names its data set itself")
    folder = options.out / options.what
    jobs = plan(options.what, folder, options.rows, seeds)
    done, failures = run_jobs(jobs, train, certify, options.jobs)
    outcomes = [found for job in done if (found := outcome(job, train, certify)) is not None]
    _write(folder, outcomes, results_table(outcomes), options.epochs is None)
    return failures


def _table(options: Options, seeds: Sequence[int], train: list[str], certify: list[str]) -> list[str]:
    """A table of the catalogue; returns what went wrong."""
    from smoothcert.evaluation.reproduce import run_jobs
    from smoothcert.evaluation.tables import check_files, comparison_table, plan_table, table_outcomes
    from smoothcert.recipes.tables import load_table

    table = load_table(options.what)
    if table.best:
        return _best(table, options, seeds, train, certify)
    jobs = plan_table(table, options.out, options.rows, seeds, options.every, options.dataset)
    check_files(planned.row for planned in jobs)
    done, failures = run_jobs([planned.job for planned in jobs], train, certify, options.jobs)
    alike = options.epochs is None and options.dataset is None
    outcomes = table_outcomes(table, [each for each in jobs if each.job in done], train, certify, alike)
    _write(options.out / table.name, outcomes, comparison_table(table, outcomes), alike)
    return failures


def _best(table: Table, options: Options, seeds: Sequence[int], train: list[str], certify: list[str]) -> list[str]:
    """A table of best models; returns what went wrong."""
    from smoothcert.evaluation.best_models import best_outcomes, best_table, plan_best
    from smoothcert.evaluation.reproduce import run_jobs
    from smoothcert.evaluation.tables import check_files

    contests = plan_best(table, options.out, options.rows, seeds, options.every, options.dataset)
    models = [planned for contest in contests for _, planned in contest.models]
    check_files(planned.row for planned in models)
    runs = {planned.job.folder for planned in models}
    before = {planned.job.starts_from.folder for planned in models if planned.job.starts_from}
    first = f", after {len(before)} runs of pre-training" if before else ""
    print(f"{table.name} is the best of {len(runs)} models: all are trained and certified{first}", flush=True)
    done, failures = run_jobs([planned.job for planned in models], train, certify, options.jobs)
    alike = options.epochs is None and options.dataset is None
    outcomes = best_outcomes(table, contests, done, train, certify, alike)
    _write(options.out / table.name, outcomes, best_table(table, outcomes), alike)
    return failures


def _write(folder: Path, outcomes: list[dict[str, Any]], table: str, alike: bool) -> None:
    """`alike`: trained as published; the files outlive the command, so that they say it where it is not so."""
    from smoothcert.evaluation.reproduce import write_results
    from smoothcert.files import write_text

    if not outcomes:  # what an earlier command has written stays
        return
    table += "" if alike else f"\n{UNLIKE}\n"
    write_results(outcomes, folder / "results.json")
    write_text(folder / "results.md", table)
    print(table)
    print(f"wrote {folder / 'results.json'} and results.md")
