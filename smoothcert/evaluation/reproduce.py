"""`smoothcert reproduce`: rows of the papers, trained, certified and measured; resumable, several at once.

A row is a recipe, maybe with changes, and each seed of it a run folder. A run is the ordinary `train` and `certify`
commands in processes of their own, so the same command continues what was killed. Runs that lie below the same folder
and have the same settings are taken, whoever made them; those that are done are measured, and nothing is started.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smoothcert.config import TrainConfig
from smoothcert.data import Dataset, LazyDataset, load_dataset
from smoothcert.data.batches import check_augment
from smoothcert.data.corruptions import check_corrupted
from smoothcert.errors import ConfigError, SmoothcertError, StoreError
from smoothcert.evaluation.trained_by import training_key
from smoothcert.recipes import load_recipe
from smoothcert.recipes.shipped import change_words, changed
from smoothcert.runs.find import find_results
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.store import ResultStore

_CHILD = "from smoothcert import __main__, interrupts; interrupts.leave_with(0); __main__.main()"
"""`smoothcert`, whose standard input is a pipe from here: it saves its state and ends when this process is gone."""
_FREE = {"seed", "precision", "kernels", "sigma", "max"}
"""Settings of a certification that a store may have otherwise; one with fewer images is continued."""


@dataclass(frozen=True)
class Given:
    """Options of `train` and `certify` that are passed through, as they were typed and as they were understood."""

    train: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the training
    certify: tuple[str, ...] = ()
    certification: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Certification:
    """One store of a run; a run that is certified on several corruptions has several."""

    every: int = 1
    corruption: tuple[str, int | None] | None = None

    @property
    def name(self) -> str:
        """Tables on fewer images than others have a store of their own in the same run."""
        names = [str(part) for part in self.corruption or ["test"] if part]
        return "-".join([*names, f"every{self.every}"] if self.every > 1 else names)

    def words(self, recipe: str) -> list[str]:
        """The options of `certify`; corruptions are those of the recipe's data."""
        words = ["--seed", "0"] + (["--every", str(self.every)] if self.every > 1 else [])
        if self.corruption:
            kind, severity = self.corruption
            graded = "" if severity is None else f"/{severity}"
            words += ["--data", f"{recipe.partition('/')[0]}-c:{kind}{graded}"]
        return words if self.name == "test" else [*words, "--name", self.name]


@dataclass(frozen=True)
class Job:
    """One run: its training and its certifications. `starts_from` is trained before, to start from its weights."""

    recipe: str
    seed: int
    folder: Path
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the recipe
    as_printed: bool = False
    certifications: tuple[Certification, ...] = ()
    soft_labels: Path | None = None  # shared by all rows: the same for every sigma and seed
    starts_from: Job | None = None

    @property
    def train(self) -> list[str]:
        words = ["train", self.recipe, "--seed", str(self.seed), "--out", str(self.folder)]
        words += [] if self.soft_labels is None else ["--soft-labels.folder", str(self.soft_labels)]
        words += [] if self.starts_from is None else ["--init-from", str(self.starts_from.folder)]
        return [*words, *["--as-printed"] * self.as_printed, *change_words(self.changes)]

    def config(self, given: Given) -> TrainConfig:
        asked = {**changed(self.changes, given.settings), "seed": self.seed}
        asked |= {} if self.starts_from is None else {"init_from": str(self.starts_from.folder)}
        return load_recipe(self.recipe, asked, self.as_printed).config

    def store(self, certification: Certification) -> ResultStore:
        return ResultStore(self.folder / "certify" / certification.name)

    def certified(self, certification: Certification, given: Given) -> bool:
        """Whether the store has every row that is asked for; one of other settings is refused."""
        store = self.store(certification)
        if not store.exists:
            return False
        manifest = store.manifest()
        asked = {"every": certification.every, **given.certification}
        there = manifest.identity
        unlike = [
            f"{name} = {there.get(name)}, not {value}"
            for name, value in asked.items()
            if name not in _FREE and there.get(name) != value
        ]
        if unlike:
            raise StoreError(
                f"{store.folder} was certified with {' and '.join(unlike)}: give the same, or "
                "another --out, where copies of the runs need no training"
            )
        same = there.get("max") == asked.get("max")
        return same and len(store.done()) == manifest.inputs

    def trained(self, given: Given) -> bool:
        """Whether its folder has a finished training of the same settings; its weights may be gone."""
        run = RunFolder(self.folder)
        if not run.config_path.is_file() or not (self.certifications or run.finished):
            return False
        done = run.finished or all(self.certified(each, given) for each in self.certifications)
        return done and training_key(run.config()) == training_key(self.config(given))


def joined(jobs: Iterable[Job]) -> list[Job]:
    """Each run once, with all certifications that any row needs of it."""
    found: dict[Path, Job] = {}
    for job in jobs:
        before = found.get(job.folder, replace(job, certifications=()))
        both = dict.fromkeys([*before.certifications, *job.certifications])
        found[job.folder] = replace(before, certifications=tuple(both))
    return list(found.values())


def taken_up(jobs: Sequence[Job], out: Path, given: Given) -> list[Job]:
    """The jobs, in the folders of runs with their settings wherever these lie below `out`."""
    there: dict[str, Path] = {}
    for folder in find_results(out) if out.is_dir() else ():
        if RunFolder(folder).config_path.is_file():
            there.setdefault(training_key(RunFolder(folder).config()), folder)
    return [
        job
        if job.folder.exists() or job.starts_from
        else replace(job, folder=there.get(training_key(job.config(given)), job.folder))
        for job in jobs
    ]


def missing_data(
    jobs: Iterable[Job], given: Given, data_dir: Path | None, download: bool = True
) -> list[str]:
    """Each data set that these jobs need and that is not there or does not suit, by name and where it comes from."""
    loaded: dict[str, Dataset | LazyDataset] = {}
    found: dict[str, None] = {}
    for job in jobs:
        for run in (job.starts_from, job):
            if run is None or run.trained(given):
                continue
            config = run.config(given)
            pseudo = config.self_training and Path(config.self_training.path)
            if pseudo and not pseudo.is_file():
                found[
                    f"{run.recipe} trains on the pseudo-labelled images of {pseudo}, which is not in this folder: put "
                    "it or a link to it here (docs/methods.md, Self-training), or leave such rows out"
                ] = None
            try:
                name = config.dataset
                if name not in loaded:
                    loaded[name] = load_dataset(name, "train", data_dir, download)
                    load_dataset(name, "test", data_dir, download, classes=loaded[name].classes)
                check_augment(config.augment, loaded[name])
            except SmoothcertError as error:
                found[str(error)] = None
        kinds = [c.corruption for c in job.certifications if c.corruption]
        for severity in {severity for _, severity in kinds}:
            types = [kind for kind, graded in kinds if graded == severity]
            try:
                benchmark = f"{job.recipe.partition('/')[0]}-c"
                check_corrupted(benchmark, types, severity, data_dir)
            except SmoothcertError as error:
                found[str(error)] = None
    return list(found)


def run_jobs(jobs: Sequence[Job], given: Given, parallel: int) -> dict[Path, str]:
    """Train, `parallel` runs at a time, then certify. Output goes to FOLDER.log.

    Returns what went wrong, by the run folder or by the store. A job that failed may have an older run of other
    settings in its folder, which must not be measured as what this command made.

    Certification comes last, since it fills a device and would slow down trainings beside it; two at a time, so that
    one starts up while the other samples.
    """
    if parallel < 1:
        raise ConfigError(f"jobs must be at least 1, found {parallel}")
    lost: dict[Path, str] = {}
    for runs in ([job.starts_from for job in jobs if job.starts_from], jobs):
        wanted = [
            job
            for job in {job.folder: job for job in runs}.values()
            if not ((job.starts_from and job.starts_from.folder in lost) or job.trained(given))
        ]
        lost |= _side_by_side(
            [(job, [*job.train, *given.train], job.folder) for job in wanted], parallel
        )
    gone = {job.folder for job in jobs if job.starts_from and job.starts_from.folder in lost}
    lost |= dict.fromkeys(gone - lost.keys(), "")  # said of what it starts from
    certified = [
        (
            job,
            ["certify", str(job.folder), *each.words(job.recipe), *given.certify],
            job.store(each).folder,
        )
        for job in jobs
        if job.folder not in lost
        for each in job.certifications
        if not job.certified(each, given)
    ]
    return lost | _side_by_side(certified, min(2, parallel))


def done_stores(jobs: Sequence[Job], lost: Mapping[Path, str]) -> list[Path]:
    """The stores of the jobs that did not fail."""
    stores = [(job.folder, job.store(each).folder) for job in jobs for each in job.certifications]
    return [store for run, store in stores if not {run, store} & lost.keys()]


def _side_by_side(work: Sequence[tuple[Job, list[str], Path]], parallel: int) -> dict[Path, str]:
    """What went wrong with each command, by the place that it writes to."""
    with ThreadPoolExecutor(parallel) as pool:
        failures = pool.map(lambda entry: _run(entry[0], entry[1], entry[2], parallel), work)
        return {place: said for (_, _, place), said in zip(work, failures, strict=True) if said}


def _run(job: Job, command: list[str], place: Path, parallel: int) -> str | None:
    """Run one command in a process of its own, beside `parallel` - 1 others; returns what went wrong, if anything."""
    # more threads than cores wait for each other in busy loops
    threads = (
        {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // parallel))} if parallel > 1 else {}
    )
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    whole = place == job.folder or place.name == "test"
    log = job.folder.with_suffix(".log" if whole else f".{place.name}.log")
    called = f"$ smoothcert {' '.join(command)}\n"
    if command[0] == "train":
        _say(f"{job.folder}: train begins, its progress is in {log}")
    with log.open("a") as file:
        file.write(called)
        file.flush()
        words, environment = [sys.executable, "-c", _CHILD, *command], {**threads, **os.environ}
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment
        ) as process:
            code = process.wait()
    if code:
        said = _error(log.read_text().rpartition(called)[2]) or f"exit status {code}"
        return f"{job.recipe}, seed {job.seed}: `{command[0]}` failed ({said}); see {log}"
    _say(f"{log.with_suffix('')}: {command[0]} done")  # rows of one recipe differ in their folders
    return None


def _say(line: str) -> None:
    """In one piece: `print` writes the end of a line by itself, and another thread may come between."""
    print(f"{line}\n", end="", flush=True)


def _error(output: str) -> str:
    """What a command said of its error, from the first line of that on; the last line if it was none of ours."""
    lines = output.strip().splitlines()
    begins = [place for place, line in enumerate(lines) if line.startswith("error: ")]
    return "\n".join(lines[begins[-1] if begins else -1 :])
