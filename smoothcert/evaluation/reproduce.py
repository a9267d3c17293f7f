"""`smoothcert reproduce`: whole tables of the papers, trained, certified and tabulated; resumable, several at once.

Each row is a recipe, maybe with changes, and each seed of it a run folder. A run is the ordinary `train` and `certify`
commands in processes of their own, so the same command continues a killed table and skips what is done. results.json
holds every outcome with the commands that led to it.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import smoothcert
from smoothcert.data import Dataset, LazyDataset, load_dataset
from smoothcert.data.batches import check_augment
from smoothcert.data.corruptions import check_corrupted
from smoothcert.errors import ConfigError, unknown_name
from smoothcert.methods import build_method
from smoothcert.recipes import load_recipe, recipe_names
from smoothcert.recipes.published import PublishedRow
from smoothcert.recipes.shipped import change_words, shipped_settings
from smoothcert.recipes.tables import namesakes, unknown_table
from smoothcert.report import Certificates, average_certified_radius, certified_accuracy, read_store
from smoothcert.report.measures.analysis import default_radii
from smoothcert.report.measures.published_comparison import differences_in_making, find_published
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.store import ResultStore

CLOSE = 0.004
"""A row counts as reproduced within max(3 published standard deviations, this) of a published ACR."""

CLOSE_TO_ONE_RUN = 0.01
"""The same where only a single run is published, so that it is not known how much runs differ."""

_CHILD = "from smoothcert import __main__, interrupts; interrupts.leave_with(0); __main__.main()"
"""`smoothcert`, whose standard input is a pipe from here: it saves its state and ends when this process is gone."""


@dataclass(frozen=True)
class Job:
    """One certification of one run; a run that is certified on several corruptions has several jobs."""

    recipe: str
    seed: int
    folder: Path
    soft_labels: Path | None = None  # shared by all rows: the same for every sigma and seed
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the recipe
    every: int | None = None  # certify every k-th image; None: as the command says
    corruption: tuple[str, int | None] | None = None  # type and severity
    starts_from: Job | None = None  # which is trained before, to start from its weights

    @property
    def named(self) -> dict[str, Any]:
        """What its outcome is called by."""
        corrupted = dict(zip(("corruption", "severity"), self.corruption or (), strict=False))
        return {**corrupted, "recipe": self.recipe, "seed": self.seed}

    @property
    def train(self) -> list[str]:
        words = ["train", self.recipe, "--seed", str(self.seed), "--out", str(self.folder)]
        words += [] if self.soft_labels is None else ["--soft-labels.folder", str(self.soft_labels)]
        words += [] if self.starts_from is None else ["--init-from", str(self.starts_from.folder)]
        return [*words, *change_words(self.changes)]

    @property
    def certify(self) -> list[str]:
        words = ["certify", str(self.folder), "--seed", "0"]
        words += ["--every", str(self.every)] if self.every else []
        if self.corruption:
            kind, severity = self.corruption
            graded = "" if severity is None else f"/{severity}"
            words += ["--data", f"{self.recipe.partition('/')[0]}-c:{kind}{graded}"]
        return words if self.store.name == "test" else [*words, "--name", self.store.name]

    @property
    def store(self) -> Path:
        """Tables on fewer images than others have a store of their own in the same run."""
        names = [str(part) for part in self.corruption or ["test"] if part]
        names += [f"every{self.every}"] if (self.every or 1) > 1 else []
        return self.folder / "certify" / "-".join(names)

    def log(self, command: str) -> Path:
        whole = command == "train" or self.corruption is None
        return self.folder.with_suffix(".log" if whole else f".{self.store.name}.log")


def plan(
    dataset: str, out: Path, rows: Sequence[str] = (), seeds: Sequence[int] = (0,)
) -> list[Job]:
    """One job for each recipe of a data set (or those that match `rows`, e.g. ``*-0.50``) and each seed."""
    known = [name for name in recipe_names() if name.startswith(f"{dataset}/")]
    if not known:
        if namesakes(dataset):
            raise unknown_table(dataset)
        unknown = unknown_name(
            "data set with recipes", dataset, {name.split("/")[0] for name in recipe_names()}
        )
        raise ConfigError(f"{unknown} (`smoothcert list tables` lists the tables)")
    names = {name.removeprefix(f"{dataset}/") for name in known}
    for pattern in rows:
        if not fnmatch.filter(names, pattern):
            raise unknown_name(f"row of {dataset}", pattern, names)
    chosen = [name for pattern in rows or ["*"] for name in fnmatch.filter(names, pattern)]
    configs = {name: load_recipe(f"{dataset}/{name}").config for name in chosen}
    jobs = []
    for name in sorted(configs, key=lambda name: (configs[name].sigma, name)):  # as tables are read
        config = configs[name]
        method = build_method(config.method)
        if method.denoises:  # it has no certificates, and no published row
            continue
        if (config.init_from or config.self_training) and not rows:
            continue  # what it needs is no part of the data set
        shared = out / "soft-labels" if method.uses_soft_labels else None
        jobs += [
            Job(f"{dataset}/{name}", seed, out / name / f"seed{seed}", shared) for seed in seeds
        ]
    if not jobs:
        raise ConfigError(
            f"{', '.join(rows)}: denoisers have no certificates to reproduce; give other --rows"
        )
    return jobs


def check_data(jobs: Sequence[Job], data_dir: Path | None) -> None:
    """Load each data set of these jobs, so that one that is missing or does not suit is refused before any training."""
    loaded: dict[str, Dataset | LazyDataset] = {}
    for run in [run for job in jobs for run in (job.starts_from, job) if run]:
        asked = {**shipped_settings(run.recipe), **run.changes}
        name = str(asked["dataset"])
        if name not in loaded:
            loaded[name] = load_dataset(name, "train", data_dir)
            load_dataset(name, "test", data_dir, classes=loaded[name].classes)
        check_augment(asked.get("augment", "none"), loaded[name])
        if run.corruption:
            check_corrupted(f"{name}-c", [run.corruption[0]], run.corruption[1], data_dir)


def run_jobs(
    jobs: Sequence[Job], train: Sequence[str], certify: Sequence[str], parallel: int
) -> tuple[list[Job], list[str]]:
    """Train, `parallel` jobs at a time, then certify. Output goes to FOLDER.log.

    Returns the jobs that were done, and a message for each failure. A job that failed may have an older run of other
    settings in its folder, which must not be tabulated as what this command made.

    Certification comes last, since it fills a device and would slow down trainings beside it; two at a time, so that
    one starts up while the other samples.
    """
    if parallel < 1:
        raise ConfigError(f"jobs must be at least 1, found {parallel}")
    lost: dict[Path, str] = {}
    for runs in ([job.starts_from for job in jobs if job.starts_from], jobs):
        ready = [job for job in runs if not (job.starts_from and job.starts_from.folder in lost)]
        lost |= _train(ready, train, parallel)
    trained = [
        job
        for job in jobs
        if not {job.folder, job.starts_from and job.starts_from.folder} & lost.keys()
    ]
    pair = min(2, parallel)
    with ThreadPoolExecutor(pair) as pool:
        certified = list(pool.map(lambda job: _run(job, [*job.certify, *certify], pair), trained))
    done = [job for job, failure in zip(trained, certified, strict=True) if not failure]
    return done, [failure for failure in (*lost.values(), *certified) if failure]


def _train(jobs: Sequence[Job], train: Sequence[str], parallel: int) -> dict[Path, str]:
    """What went wrong, by run folder."""
    runs = list({job.folder: job for job in reversed(jobs)}.values())[::-1]  # the first job of each
    with ThreadPoolExecutor(parallel) as pool:
        failures = pool.map(lambda job: _run(job, [*job.train, *train], parallel), runs)
        return {job.folder: failure for job, failure in zip(runs, failures, strict=True) if failure}


def _run(job: Job, command: list[str], parallel: int) -> str | None:
    """Run one command in a process of its own, beside `parallel` - 1 others; returns what went wrong, if anything."""
    # more threads than cores wait for each other in busy loops
    threads = (
        {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // parallel))} if parallel > 1 else {}
    )
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    log, called = job.log(command[0]), f"$ smoothcert {' '.join(command)}\n"
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


def outcome(
    job: Job,
    train: Sequence[str] = (),
    certify: Sequence[str] = (),
    radii: Sequence[float] = (),
    printed: PublishedRow | None = None,
    *,
    comparable: bool = True,
) -> dict[str, Any] | None:
    """What came out of a finished job, with all that is needed to make it again; None if it is not finished.

    `printed` is the row that it is compared with, where that is not to be found by its settings. `comparable` says
    whether the job was asked to be as published: if not, there is no verdict.
    """
    run, store = RunFolder(job.folder), ResultStore(job.store)
    if not run.finished or not store.exists:
        return None
    manifest = store.manifest()
    if len(store.done()) < manifest.inputs:
        return None
    found = read_store(store.folder)
    radii = radii or default_radii([found])
    identity = manifest.identity
    runs = [run for run in (job.starts_from, job) if run]
    commands = [*([*run.train, *train] for run in runs), [*job.certify, *certify]]
    return {
        **job.named,
        **({"changes": dict(job.changes)} if job.changes else {}),
        "commands": [f"smoothcert {' '.join(command)}" for command in commands],
        "version": smoothcert.__version__,
        "commits": {
            "train": _commits(
                start
                for run in runs
                for start in RunFolder(run.folder).records("environment.jsonl")
            ),
            "certify": _commits([manifest.environment]),
        },
        "device": manifest.environment["device"],
        "torch": manifest.environment["torch"],
        **{name: identity[name] for name in ("n0", "n", "alpha", "noise", "start", "every", "max")},
        "inputs": found.rows,
        "train_seconds": round(sum(entry["seconds"] for entry in run.records("timing.jsonl")), 1),
        "certify_seconds": round((store.mean_seconds() or 0.0) * found.rows, 1),
        # with all their digits, since means over seeds are made of them
        "acr": average_certified_radius(found, rounded=True),
        "certified_accuracy": dict(
            zip(
                (f"{r:g}" for r in radii),
                certified_accuracy(found, radii, rounded=True).tolist(),
                strict=True,
            )
        ),
        "published": published_outcome(printed or find_published(found), found, comparable),
    }


def _commits(starts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each commit once that the code was at in these starts; none where it was no checkout."""
    return list(dict.fromkeys(start["commit"][:7] for start in starts if start.get("commit")))


def published_outcome(
    row: PublishedRow | None, found: Certificates, comparable: bool = True
) -> dict[str, Any] | None:
    if row is None:
        return None
    acr = average_certified_radius(found, rounded=True)
    allowed = CLOSE_TO_ONE_RUN if row.std is None else max(3 * row.std, CLOSE)
    values = [value for value in (row.mean, row.acr) if value is not None]
    near = any(abs(acr - value) <= allowed for value in values) if values else None
    alike = comparable and not differences_in_making(found, row)
    return {
        "acr": row.acr,
        "mean": row.mean,
        "std": row.std,
        "source": row.source,
        "allowed_difference": round(allowed, 4),
        "reproduced": near if alike else None,  # None: not decided
    }


def results_table(outcomes: Sequence[dict[str, Any]]) -> str:
    """Markdown: ours beside published, row by row; the difference is to the mean over seeds, where one is published."""
    lines = [
        "| recipe | seed | inputs | ACR | published | difference | reproduced |",
        "|---|---|---|---|---|---|---|",
    ]
    words = {True: "yes", False: "**no**", None: "-"}
    for entry in outcomes:
        row = entry["published"] or {}
        values = [f"{row['acr']:.3f}"] if row.get("acr") is not None else []
        values += [f"{row['mean']:.4f} ± {row['std']:.4f}"] if row.get("mean") is not None else []
        cells = (f"`{entry['recipe']}`", entry["seed"], entry["inputs"], f"{entry['acr']:.4f}")
        reference = row.get("acr") if row.get("mean") is None else row["mean"]
        measured_alike = row.get("reproduced") is not None
        difference = f"{entry['acr'] - reference:+.4f}" if measured_alike else "-"
        tail = ("; ".join(values) or "-", difference, words[row.get("reproduced")])
        lines.append("| " + " | ".join(map(str, (*cells, *tail))) + " |")
    return "\n".join(lines) + "\n"
