"""`smoothcert reproduce`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_machine,
    add_numbers,
    given_overrides,
    on_disk,
    option,
    read_selection,
    read_settings,
    read_whole_numbers,
)
from smoothcert.config import CertifyConfig, TrainConfig, check_seed
from smoothcert.errors import ConfigError, DataError, SmoothcertError
from smoothcert.progress import noun

if TYPE_CHECKING:
    from smoothcert.evaluation.plan import Target
    from smoothcert.evaluation.reproduce import Given, Job
    from smoothcert.published.measured import Measured

ABOUT = "Train, certify and judge whole published tables; resumable, several runs at once."

_OWN = {
    "train": {
        "--out",
        "--seed",
        "--init-from",
        "--soft-labels.folder",
        "--as-printed",
        "--dataset",
    },
    "certify": {"--out", "--model", "--name", "--corruption", "--severity", "--data", "--split"},
}
"""Options of these commands that `reproduce` gives itself."""


def add_options(parser: ArgumentParser) -> None:
    named = "a table (`smoothcert tables`), a recipe, or a data set whose recipes to run: mnist, cifar10, ..."
    parser.add_argument("what", type=str, help=named)
    rows = "only these, e.g. gaussian-0.50 'smoothmix-*'; of a table by label or recipe, e.g. 'eta = *'"
    parser.add_argument("--rows", type=str, nargs="+", default=[], help=rows)
    seeds = "how many seeds, e.g. 5 for 0 to 4, or which, e.g. 3,4 (default: seed 0)"
    add_numbers(parser, ("--seeds",), seeds)
    option(parser, "--out", Path, Path("reproduce"), "folder for the runs")
    jobs = "trainings at a time on this machine; certification comes after, two by two"
    option(parser, "--jobs", int, 1, jobs)
    text = "as the papers' texts say where their authors' code does otherwise"
    parser.add_argument("--as-printed", action="store_true", help=text)
    option(parser, "--data", str, None, "run the rows on other data, for a first look")
    for command, example in (("train", "--epochs 1"), ("certify", "--every 20 --skip-wrong")):
        text = f"options of `smoothcert {command}`, in quotes after an equals sign: --{command}='{example}'"
        option(parser, f"--{command}", str, "", text)
    dry = "print the runs, the hours that they take and the data that is missing, and run nothing"
    parser.add_argument("--dry-run", action="store_true", help=dry)
    judge = (
        "folders with certified runs: measure those that have the settings of rows, and run nothing"
    )
    parser.add_argument("--judge", type=on_disk, nargs="+", default=None, help=judge)
    logs = "folders with the authors' logs, and with those of others, image by image"
    parser.add_argument("--logs", type=on_disk, nargs="+", default=[], help=logs)
    option(parser, "--results", Path, None, "file of lines to add to; default: OUT/results.jsonl")
    add_machine(parser)


def run(options: Options) -> None:
    from smoothcert.evaluation.plan import plan, targets
    from smoothcert.evaluation.reproduce import missing_data, run_jobs, taken_up

    wanted = targets(options.what, options.rows)
    _check_places(options)
    if options.judge is not None:
        other = ("seeds", "data", "train", "certify", "as_printed", "dry_run")
        if given_too := [f"--{name.replace('_', '-')}" for name in other if options[name]]:
            raise ConfigError(f"--judge runs nothing: leave {', '.join(given_too)} out")
        _judge(options, wanted)
        return
    seeds, given = _seeds(options.seeds), _given(options)
    if options.jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, found {options.jobs}")
    step = given.certification.get("every")
    jobs = plan(
        wanted, options.out, seeds, as_printed=options.as_printed, data=options.data, every=step
    )
    jobs = taken_up(jobs, options.out, given)
    for job in jobs:  # what would be refused later is refused now
        job.config(given)
        for each in job.certifications:
            job.certified(each, given)
    missing = missing_data(jobs, given, options.data_dir, download=not options.dry_run)
    if options.dry_run:
        _print_plan(options, jobs, given, missing)
        return
    if missing:
        raise DataError("\n".join(missing))
    lost = run_jobs(jobs, given, options.jobs)
    _measure(options, wanted, jobs, lost)


def _measure(
    options: Options, wanted: Sequence[Target], jobs: Sequence[Job], lost: dict[Path, str]
) -> None:
    from smoothcert.evaluation.measure import measure
    from smoothcert.evaluation.reproduce import done_stores

    found, failures = [], [said for said in lost.values() if said]
    for store in done_stores(jobs, lost):
        try:
            found.append(measure(store, options.logs))
        except SmoothcertError as error:
            failures.append(str(error))
    if found:  # what an earlier command has written stays
        _add(options, found)
    if failures:
        raise SmoothcertError("; ".join(failures))


def _judge(options: Options, wanted: Sequence[Target]) -> None:
    """Lines of the runs that are there; neither weights nor a GPU are needed."""
    from smoothcert.evaluation.measure import measure_runs

    def reason(measured: Measured) -> str:
        if any(target.row.is_about(measured.config) for target in wanted):
            return ""
        unlike = [target.row.differences(measured.config) for target in wanted]
        return "; ".join(sorted(unlike, key=len)[0])

    found, left_out = measure_runs(options.judge, reason, options.logs)
    for why in left_out:
        print(f"left out: {why}")
    if not found:
        raise SmoothcertError(f"no certified run of a row of {options.what} was found")
    _add(options, found)


def _add(options: Options, found: Sequence[Measured]) -> None:
    """Lines of new runs are added; then all of them stand beside what is printed."""
    from smoothcert.published.catalogue import load_table, table_names
    from smoothcert.published.compared import compared_recipes, compared_table
    from smoothcert.published.measured import add_measured, read_measured, written

    path = options.results or options.out / "results.jsonl"
    there = {run.key: run for run in (read_measured([path]) if path.exists() else ())}
    found = [  # logs that were named before, and not now, stay
        run if run.beside or run.key not in there else replace(run, beside=there[run.key].beside)
        for run in found
    ]
    new = [r for r in found if r.key not in there or written(r) != written(there[r.key])]
    add_measured(path, new)
    if options.what in table_names():
        print(compared_table(load_table(options.what), [*there.values(), *new]))
    else:
        print(compared_recipes(found))
    print(f"{path}: {len(new)} {noun(len(new), 'line')} added")


def _print_plan(
    options: Options, jobs: Sequence[Job], given: Given, missing: Sequence[str]
) -> None:
    import dataclasses

    from smoothcert.published.measured import read_measured
    from smoothcert.published.speeds import Speeds

    measured = read_measured(sorted(Path("results").glob("*.jsonl")))
    speeds = Speeds(measured, Path("results").glob("[tc]*-h200.json"))
    hours, unknown = 0.0, 0
    for job in jobs:
        if job.trained(given) and all(job.certified(each, given) for each in job.certifications):
            print(f"{job.folder}: done, is only judged")
            continue
        print(shlex.join(["smoothcert", *job.train, *given.train]))
        images = sum(10_000 // each.every for each in job.certifications)
        took = speeds.hours(dataclasses.asdict(job.config(given)), images)
        hours, unknown = hours + (took or 0.0), unknown + (took is None)
    more = f", and of {unknown} {noun(unknown, 'run')} that no line of results/ has the time of"
    print(f"{len(jobs)} {noun(len(jobs), 'run')}, about {hours:.2f} hours{more if unknown else ''}")
    for name in missing:
        print(f"missing: {name}")


def _seeds(words: list[str] | None) -> tuple[int, ...]:
    """`5` is five seeds; several numbers, or one with a comma, are the seeds themselves."""
    found = read_whole_numbers(words, "--seeds")
    if words and len(words) == 1 and "," not in words[0]:
        if not 1 <= found[0] <= 1000:
            raise ConfigError(f"--seeds takes how many seeds, from 1 to 1000, found {found[0]}")
        found = tuple(range(found[0]))
    for seed in found:
        check_seed("each of --seeds", seed)
    return tuple(dict.fromkeys(found)) or (0,)  # each once


def _given(options: Options) -> Given:
    """What `train` and `certify` refuse is refused before the first of them is started."""
    from smoothcert.evaluation.reproduce import Given
    from smoothcert.statistics.bounds import check_samples

    machine = ["--device", options.device]
    machine += ["--data-dir", str(options.data_dir)] if options.data_dir else []
    train, certify = (_words(options, command) for command in ("train", "certify"))
    trained = _parsed("train", ["mnist/gaussian-0.50", "--out", "run", *train])
    certified = _parsed("certify", ["run", *certify])
    settings = read_settings(certified, CertifyConfig, sigma=1.0)
    check_samples(settings.n0, settings.n, settings.alpha)
    selection = read_selection(certified)
    asked = {**vars(settings), "start": selection.start, "max": selection.max}
    if any(word.partition("=")[0] == "--every" for word in certify):
        asked["every"] = selection.every
    return Given(
        (*machine, *train),
        given_overrides(trained, TrainConfig),
        (*machine, *certify),
        {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()},
    )


def _words(options: Options, command: str) -> list[str]:
    try:
        words = shlex.split(options[command])
    except ValueError as error:
        raise ConfigError(f"--{command} cannot be read: {error}") from error
    if own := _OWN[command] & {word.partition("=")[0] for word in words}:
        raise ConfigError(f"--{command}: {', '.join(sorted(own))} is given by reproduce itself")
    return words


def _parsed(command: str, words: list[str]) -> Options:
    from smoothcert.cli import build_parser

    return build_parser(words=[command]).parse_args([command, *words])[command]


def _check_places(options: Options) -> None:
    places = (options.out.absolute(), *options.out.absolute().parents)
    there = next(place for place in places if place.exists())
    if not there.is_dir():
        raise ConfigError(
            f"--out must be a folder, or the name of one to make, but {there} is a file"
        )
