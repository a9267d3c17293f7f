"""A certified run -> its line of results/*.jsonl. Neither its weights nor a GPU are needed."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.config import CertifyConfig, as_options
from smoothcert.errors import SmoothcertError, StoreError
from smoothcert.evaluation.trained_by import last_parts, named, placeless, settings_in
from smoothcert.published.catalogue import all_rows, load_table, table_names
from smoothcert.published.measured import Made, Measured
from smoothcert.published.row import Row
from smoothcert.recipes.shipped import change_words
from smoothcert.report import read_log, read_store
from smoothcert.report.measures.bootstrap import paired_bootstrap
from smoothcert.report.measures.pairing import paired
from smoothcert.report.measures.published_comparison import measured
from smoothcert.report.read.certificates import Certificates
from smoothcert.runs.find import find_results, stores_of
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from smoothcert.runs.verified import read_record
from smoothcert.statistics.value import ACR, CERTIFIED_ACCURACY, Value

SECOND = "eth-acr-weakness/{dataset}/{method}/noise_{sigma}.tsv"
"""Logs of an independent group, of the rows whose authors' logs are those of the table below."""
SECOND_TABLE = "catrs-logs/cifar10"

_NOT_SETTINGS = {"behaviour", "prepared", "network", "model", "model_json", "alpha_each", "classes"}


def measure(store: Path, logs: Sequence[Path] = ()) -> Measured:
    """What a store of certificates gives, each computed again from its counts."""
    c = read_store(store)
    run = RunFolder(store.resolve().parent.parent)
    if c.config is None:
        raise StoreError(
            f"{store}: expected the config.yaml of its run two folders above, found none"
        )
    config = settings_in(c.config, str(run.config_path))
    epochs = len(run.records("metrics.jsonl"))
    if c.partial:
        raise StoreError(f"{store} has {c.rows} of {c.expected} images: certify it to the end")
    if epochs not in (0, config["epochs"]):
        raise StoreError(
            f"{run.path} has {epochs} of {config['epochs']} epochs: train it to the end"
        )
    if not c.labelled:
        raise StoreError(f"{store} has images without labels, of which no table has a value")
    radii, made = _radii(config), _made(c, run, config)
    on = "/".join(filter(None, c.corruption or ()))
    beside = {} if c.tested_radii else dict(_beside(c, _rows_of(config), radii, logs))
    if [v[1:] for v in beside.get("eth", ())] == [v[1:] for v in beside.get("authors", ())]:
        beside.pop("eth", None)  # the authors' own files
    settings = {name: v for name, v in c.identity.items() if name not in _NOT_SETTINGS}
    return Measured(
        placeless({**config, "init_from": made.starts_from or None}),
        placeless({**settings, "images": c.rows}),
        tuple(v._replace(of=made.recipe, on=on) for v in measured(c, radii).values),
        beside,
        made,
    )


def measure_runs(
    places: Iterable[Path], wanted: Callable[[Measured], str], logs: Sequence[Path] = ()
) -> tuple[list[Measured], list[str]]:
    """Every certified run at or below some folders, and why each of the others is left out.

    `wanted` says why one is not asked for, or nothing.
    """
    found, left_out = [], []
    for run in (run for place in places for run in find_results(place)):
        stores = stores_of(run) or ([run] if ResultStore(run).exists else [])
        if not stores:
            left_out.append(f"{run} has no certificates: certify it")
        for store in stores:
            try:
                line = measure(store, logs)
            except SmoothcertError as error:
                left_out.append(str(error))
                continue
            if reason := wanted(line):
                left_out.append(f"{store}: {reason}")
            else:
                found.append(line)
    return found, left_out


def _radii(config: Mapping[str, Any]) -> list[float]:
    """Those of all tables about this data and noise."""
    place = config["dataset"].removesuffix("-printed"), config["sigma"]
    tables = map(load_table, table_names())
    models = ((table, m) for table in tables for row in table.rows for m in row.best_of or (row,))
    known = {
        radius
        for table, model in models
        if model.recipe and (model.dataset, model.settings["sigma"]) == place
        for radius in table.radii
    }
    return sorted(known | {0.0})


def _rows_of(config: Mapping[str, Any]) -> list[Row]:
    """The rows of the same method, network, data and noise; first those that were trained as this says."""
    found = [row for row in all_rows() if row.is_about(config)]
    return sorted(found, key=lambda row: len(row.differences(config)))


def _made(c: Certificates, run: RunFolder, config: Mapping[str, Any]) -> Made:
    recipe, changes = named(config)
    environment = (c.manifest or {})["environment"]
    place = "/".join(run.path.parts[-2 if run.path.name.startswith("seed") else -1 :])
    start = last_parts(config["init_from"])
    train = ["train", recipe, *change_words(changes), "--seed", str(config["seed"])]
    train += ["--as-printed"] * config["as_printed"] + (["--init-from", start] if start else [])
    commands = ([*train, "--out", place], ["certify", place, *_certify_words(c)])
    each, timing = ResultStore(c.source).mean_seconds(), run.records("timing.jsonl")
    seconds = {"train": sum(entry["seconds"] for entry in timing), "certify": (each or 0) * c.rows}
    return Made(
        recipe=recipe,
        changes=changes,
        as_printed=config["as_printed"],
        seed=config["seed"],
        commands=tuple(shlex.join(["smoothcert", *words]) for words in commands),
        commits={
            "train": _commits(run.records("environment.jsonl")),
            "certify": _commits([environment]),
        },
        device=str(environment.get("device")),
        torch=str(environment.get("torch")),
        seconds={name: round(found, 1) for name, found in seconds.items() if found},
        checked=_checked(c),
        starts_from=start or "",
    )


def _certify_words(c: Certificates) -> list[str]:
    """The options of `certify` that are not as they are without being given."""
    settings = [*fields(Selection), *fields(CertifyConfig)]
    usual = {entry.name: entry.default for entry in settings} | {"sigma": (c.config or {})["sigma"]}
    given = {name: value for name, value in c.identity.items() if value != usual.get(name)}
    words = [] if c.identity["split"] == "test" else ["--split", c.identity["split"]]
    if c.corruption is not None:
        kind, severity = c.corruption
        graded = f"/{severity}" if severity else ""
        words = ["--data", f"{c.identity['dataset']}:{kind}{graded}"]
    return [*words, *as_options(Selection, given), *as_options(CertifyConfig, given)]


def _commits(starts: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Each commit once that the code was at in these starts; none where it was no checkout."""
    return tuple(dict.fromkeys(start["commit"][:7] for start in starts if start.get("commit")))


def _checked(c: Certificates) -> str:
    """Reading a store computes each row again from its counts; `verify --resample` leaves a record beside it."""
    record = read_record(c.source) or {}
    whole = record.get("fingerprint") == ResultStore(c.source).fingerprint()
    again = record.get("resampled", 0) if whole and record.get("verdict") == "verified" else 0
    return f"resampled {100 * again / c.rows:.2g} %" if again else "counts"


def _beside(
    c: Certificates, rows: Sequence[Row], radii: Sequence[float], logs: Sequence[Path]
) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """Ours minus each log that is there, on the images that both have; of several seeds, minus their mean."""
    for name, paths in _references(c, rows, logs).items():
        theirs = [log for log in map(read_log, paths) if not paired([log, c], 0)[1]]
        shared = reduce(np.intersect1d, [log.idx for log in theirs], c.idx)
        if not theirs or not len(shared):
            continue
        ours, *others = (one.where(np.isin(one.idx, shared)) for one in (c, *theirs))
        rng = np.random.default_rng(0)
        found = paired_bootstrap(ours, others, rng, radii=radii, resamples=1000, rounded=True)
        measures = [(ACR, None), *((CERTIFIED_ACCURACY, r) for r in radii)]
        seeds, images = len(others), ours.rows
        yield (
            name,
            tuple(
                Value(name, measure, gap.value, r, "", gap.low, gap.high, math.nan, seeds, images)
                for (measure, r), gap in zip(measures, (found.acr, *found.accuracy), strict=True)
                if gap.value == gap.value
            ),
        )


def _references(
    c: Certificates, rows: Sequence[Row], logs: Sequence[Path]
) -> dict[str, list[Path]]:
    """The files of each group's logs of these rows."""
    config, own = c.config or {}, {row.log for row in rows if row.log}
    if c.corruption is not None or not own:
        return {}
    wanted = {"authors": next(row.log for row in rows if row.log)}
    if own & {row.log for row in load_table(SECOND_TABLE).rows}:
        names = {"method": config["method"]["name"], "sigma": float(config["sigma"])}
        wanted["eth"] = SECOND.format(dataset=config["dataset"], **names)
    places = [place for folder in logs for place in (folder, folder / "data")]
    return {
        name: sorted({path for place in places for path in place.glob(pattern)})
        for name, pattern in wanted.items()
    }
