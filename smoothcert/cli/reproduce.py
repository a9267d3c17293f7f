"""`smoothcert reproduce`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_machine, add_numbers, option, read_whole_numbers
from smoothcert.config import N
from smoothcert.errors import SmoothcertError

ABOUT = "Train, certify and tabulate whole published tables; resumable, several runs at once."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("dataset", type=str, help="whose recipes to run: mnist, fashion-mnist, cifar10, ...")
    parser.add_argument("--rows", type=str, nargs="+", default=[], help="only these, e.g. gaussian-0.50 'smoothmix-*'")
    add_numbers(parser, ("--seeds",), "seeds, e.g. 0 1 2 (default: 0)")
    option(parser, "--out", Path, Path("reproduce"), "folder for the runs, results.json and results.md")
    option(parser, "--jobs", int, 1, "trainings at a time on this machine; certification comes after, two by two")
    option(parser, "--epochs", int, None, "fewer epochs, for a first look")
    option(parser, "--every", int, 1, "certify every k-th test image")
    option(parser, "--max", int, None, "certify at most this many")
    option(parser, "--n", int, N, "noise samples per image")
    add_machine(parser)


def run(options: Options) -> None:
    from smoothcert.evaluation.reproduce import outcome, plan, results_table, run_jobs, write_results
    from smoothcert.files import write_text

    seeds = read_whole_numbers(options.seeds, "--seeds") or (0,)
    folder = options.out / options.dataset
    jobs = plan(options.dataset, folder, options.rows, seeds)
    machine = ["--device", options.device, *(["--data-dir", str(options.data_dir)] if options.data_dir else [])]
    train = [*machine, *(["--epochs", str(options.epochs)] if options.epochs else [])]
    certify = [*machine, "--every", str(options.every), "--n", str(options.n)]
    certify += ["--max", str(options.max)] if options.max else []
    failures = run_jobs(jobs, train, certify, options.jobs)
    outcomes = [found for job in jobs if (found := outcome(job, train, certify)) is not None]
    write_results(outcomes, folder / "results.json")
    write_text(folder / "results.md", results_table(outcomes))
    print(results_table(outcomes))
    print(f"wrote {folder / 'results.json'} and results.md")
    if failures:
        raise SmoothcertError("; ".join(failures))
