"""`smoothcert reproduce`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.cli import frame
from smoothcert.cli.frame import DataDir, Device, Words, command
from smoothcert.cli.output import selected
from smoothcert.cli.values import whole_number
from smoothcert.config import CertifyConfig, check_seed
from smoothcert.errors import ConfigError, DataError, SmoothcertError
from smoothcert.progress import noun

if TYPE_CHECKING:
    from smoothcert.evaluation.plan import Target
    from smoothcert.evaluation.reproduce import Given, Job
    from smoothcert.published.measured import Measured

_OWN = {
    "train": {
        "--out",
        "--seed",
        "--init-from",
        "--soft-labels.folder",
        "--as-printed",
        "--data",
    },
    "certify": {"--out", "--model", "--name", "--data", "--split"},
}
"""Options of these commands that `reproduce` gives itself."""


@command("The papers", "rows seeds out jobs data train certify dry_run judge")
def reproduce(
    what: str,
    /,
    *,
    rows: tuple[str, ...] = (),
    seeds: tuple[str, ...] = (),
    out: Path = Path("reproduce"),
    jobs: int = 1,
    as_printed: bool = False,
    data: str | None = None,
    train: Words = "",
    certify: Words = "",
    dry_run: bool = False,
    judge: tuple[Path, ...] = (),
    logs: tuple[Path, ...] = (),
    results: Path | None = None,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Make a published table again, beside its values

    Args:
        what: a table (`smoothcert list tables`), a recipe, or a data set whose recipes to run: mnist, cifar10, ...
        rows: only these, e.g. gaussian-0.50 'smoothmix-*'; of a table by label or recipe, e.g. 'eta = *'
        seeds: how many seeds, e.g. 5 for 0 to 4, or which, e.g. 3,4 (default: seed 0)
        out: folder for the runs
        jobs: trainings at a time on this machine; certification comes after, two by two
        as_printed: as the papers' texts say where their authors' code does otherwise
        data: run the rows on other data, for a first look
        train: options of `smoothcert train`, in quotes: --train '--epochs 1'
        certify: options of `smoothcert certify`, in quotes: --certify '--every 20 --skip-wrong'
        dry_run: print the runs, the hours that they take and the data that is missing, and run nothing
        judge: folders with certified runs: measure those that have the settings of rows, and run nothing
        logs: folders with the authors' logs, and with those of others, image by image
        results: file of lines to add to; default: OUT/results.jsonl
    """
    from smoothcert.evaluation.plan import plan, targets
    from smoothcert.evaluation.reproduce import missing_data, run_jobs, taken_up

    wanted = targets(what, rows)
    _check_place(out)
    lines = Lines(what, results or out / "results.jsonl", logs)
    if judge:
        other: dict[str, Any] = {"seeds": seeds, "data": data, "train": train, "certify": certify}
        other |= {"as-printed": as_printed, "dry-run": dry_run}
        if given_too := [f"--{name}" for name, value in other.items() if value]:
            raise ConfigError(f"--judge runs nothing: leave {', '.join(given_too)} out")
        lines.judge(judge, wanted)
        return
    machine = ("--device", device, *(("--data-dir", str(data_dir)) if data_dir else ()))
    chosen, given = _seeds(seeds), _given(train, certify, machine)
    if jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, found {jobs}")
    step = given.certification.get("every")
    planned = plan(wanted, out, chosen, as_printed=as_printed, data=data, every=step)
    planned = taken_up(planned, out, given)
    for job in planned:  # what would be refused later is refused now
        job.config(given)
        for each in job.certifications:
            job.certified(each, given)
    missing = missing_data(planned, given, data_dir, download=not dry_run)
    if dry_run:
        _print_plan(planned, given, missing)
        return
    if missing:
        raise DataError("\n".join(missing))
    lines.measure(planned, run_jobs(planned, given, jobs))


@dataclass(frozen=True)
class Lines:
    """Where what comes of runs is written, and beside which logs."""

    what: str
    path: Path
    logs: Sequence[Path]

    def measure(self, jobs: Sequence[Job], lost: dict[Path, str]) -> None:
        from smoothcert.evaluation.measure import measure
        from smoothcert.evaluation.reproduce import done_stores

        found, failures = [], [said for said in lost.values() if said]
        for store in done_stores(jobs, lost):
            try:
                found.append(measure(store, self.logs))
            except SmoothcertError as error:
                failures.append(str(error))
        if found:  # what an earlier command has written stays
            self.add(found)
        if failures:
            raise SmoothcertError("; ".join(failures))

    def judge(self, places: Sequence[Path], wanted: Sequence[Target]) -> None:
        """Lines of the runs that are there; neither weights nor a GPU are needed."""
        from smoothcert.evaluation.measure import measure_runs

        def reason(measured: Measured) -> str:
            if any(target.row.is_about(measured.config) for target in wanted):
                return ""
            unlike = [target.row.differences(measured.config) for target in wanted]
            return "; ".join(sorted(unlike, key=len)[0])

        found, left_out = measure_runs(list(places), reason, self.logs)
        for why in left_out:
            print(f"left out: {why}")
        if not found:
            raise SmoothcertError(f"no certified run of a row of {self.what} was found")
        self.add(found)

    def add(self, found: Sequence[Measured]) -> None:
        """Lines of new runs are added; then all of them stand beside what is printed."""
        from smoothcert.published.catalogue import load_table, table_names
        from smoothcert.published.compared import compared_recipes, compared_table
        from smoothcert.published.measured import add_measured, read_measured, written

        path = self.path
        there = {run.key: run for run in (read_measured([path]) if path.exists() else ())}
        found = [  # logs that were named before, and not now, stay
            run
            if run.beside or run.key not in there
            else replace(run, beside=there[run.key].beside)
            for run in found
        ]
        new = [r for r in found if r.key not in there or written(r) != written(there[r.key])]
        add_measured(path, new)
        if self.what in table_names():
            print(compared_table(load_table(self.what), [*there.values(), *new]))
        else:
            print(compared_recipes(found))
        print(f"{path}: {len(new)} {noun(len(new), 'line')} added")


def _print_plan(jobs: Sequence[Job], given: Given, missing: Sequence[str]) -> None:
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


def _seeds(words: Sequence[str]) -> tuple[int, ...]:
    """`5` is five seeds; several numbers, or one with a comma, are the seeds themselves."""
    try:
        found = [whole_number(part) for word in words for part in word.split(",") if part.strip()]
    except ValueError as error:
        raise ConfigError(
            f"--seeds takes whole numbers, for example 5 or 3,4, found '{error}'"
        ) from None
    if len(words) == 1 and "," not in words[0]:
        if not 1 <= found[0] <= 1000:
            raise ConfigError(f"--seeds takes how many seeds, from 1 to 1000, found {found[0]}")
        found = list(range(found[0]))
    for seed in found:
        check_seed("each of --seeds", seed)
    return tuple(dict.fromkeys(found)) or (0,)  # each once


def _given(train: str, certify: str, machine: Sequence[str]) -> Given:
    """What `train` and `certify` refuse is refused before the first of them is started."""
    from smoothcert.evaluation.reproduce import Given
    from smoothcert.statistics.bounds import check_samples

    of_train, of_certify = _words("train", train), _words("certify", certify)
    trained = _parsed(["train", "mnist/gaussian-0.50", "--out", "run", *of_train])
    certified = _parsed(["certify", "run", *of_certify])
    settings = CertifyConfig(**{"sigma": 1.0, **certified["settings"]})
    check_samples(settings.n0, settings.n, settings.alpha)
    selection = selected(certified["subset"], certified.get("shard", "0/1"))
    asked = {**vars(settings), "start": selection.start, "max": selection.max}
    if "every" in certified["subset"]:
        asked["every"] = selection.every
    return Given(
        (*machine, *of_train),
        trained["settings"],
        (*machine, *of_certify),
        {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()},
    )


def _words(command: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--{command} cannot be read: {error}") from error
    if own := _OWN[command] & {word.partition("=")[0] for word in words}:
        raise ConfigError(f"--{command}: {', '.join(sorted(own))} is given by reproduce itself")
    return words


def _parsed(words: list[str]) -> dict[str, Any]:
    call = frame.parsed(words)
    if call is None:
        raise ConfigError(f"--{words[0]} takes options that change something, found {words[-1]}")
    return call.keywords


def _check_place(out: Path) -> None:
    there = next(place for place in (out.absolute(), *out.absolute().parents) if place.exists())
    if not there.is_dir():
        raise ConfigError(
            f"--out must be a folder, or the name of one to make, but {there} is a file"
        )
