"""Stores of ours and published logs of the field -> `Certificates`."""

from __future__ import annotations

import re
import warnings as python_warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.errors import StoreError
from smoothcert.published.row import ALPHA, N
from smoothcert.report.read.attacks import attacked_beside
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.names import distinct_names
from smoothcert.report.read.trainings import is_training_log
from smoothcert.runs.find import find_results, is_attack_store, stores_of
from smoothcert.runs.rows import (
    Column,
    NoCertificates,
    merge,
    nothing_yet,
    read_lines,
    typed_columns,
)
from smoothcert.statistics.saturation import saturation_radius


def read_log(path: str | Path) -> Certificates:
    """Read a log of the field (`idx label predict radius correct ...`, any order, more columns allowed)."""
    path = Path(path)
    try:
        lines = read_lines(path)
    except StoreError:
        if is_training_log(path):
            raise StoreError(
                f"{path}: a training log, which holds no certificates; draw it by --draw losses --figure losses.svg, "
                "or leave it out"
            ) from None
        raise
    typed = typed_columns(lines)
    columns = merge([typed], path)
    sigma, n = _sigma_in(path), _constant(columns, "n")
    return Certificates(
        **_fields(columns),
        name=distinct_names([(_log_place(path), sigma)])[0],
        sigma=sigma,
        n0=_constant(columns, "n0"),
        n=n,
        source=path,
        warnings=(
            *([_torn(path)] if lines.torn else ()),
            *_incomplete(typed["idx"], columns["idx"]),
            *_beyond(columns, sigma, n or N),
        ),
    )


def read_store(folder: str | Path) -> Certificates:
    """Read one store, `manifest.json` and `part-*.tsv`, complete or still being written.

    Each row is recomputed from its counts, and refused if they do not prove it.
    """
    from smoothcert.runs.check import require_sound  # with SciPy, which logs do not need

    folder = Path(folder)
    checked = require_sound(folder, "`smoothcert verify` names all that is wrong")
    manifest, columns = checked.manifest, checked.columns
    if not columns:
        raise nothing_yet(folder)
    notes, identity = [_torn(part.path) for part in checked.parts if part.torn], manifest.described
    claims = manifest.procedure.claims(columns["looks"], columns["other"])
    columns["p_lower"] = claims.p_lower
    config = _config(folder, notes)
    settings: dict[str, Any] = {
        key: identity.get(key) for key in ("sigma", "n0", "n", "alpha", "noise")
    }
    found = Certificates(
        **_fields(columns),
        name="/".join(_store_place(folder).parts[-2:]),
        **settings,
        norm=str(identity.get("norm")),
        expected=manifest.inputs,
        source=folder,
        manifest={
            "identity": identity,
            "inputs": manifest.inputs,
            "environment": dict(manifest.environment),
        },
        config=config,
        warnings=tuple(notes),
    )
    return attacked_beside(found)


def read_results(*paths: str | Path) -> list[Certificates]:
    """Read run folders (all their stores), store folders and log files, and give the runs distinct names.

    Of another folder, all run folders and stores below it are read.

    A place that holds no certificates yet is left out with a warning, unless nothing else is left.

    >>> from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_model
    >>> model, test, config = load_model("mini"), load_dataset("mnist-mini"), CertifyConfig(sigma=0.5, n=100)
    >>> store = certify_dataset(model, test, "mini/test", config, selection=Selection(max=2), quiet=True)
    >>> from smoothcert import read_results
    >>> (certificates,) = read_results("mini")
    >>> certificates.label.tolist(), certificates.predict.tolist()
    ([7, 2], [7, 2])
    """
    results: dict[Path, Certificates] = {}
    empty: list[NoCertificates] = []
    for path in _places(paths, empty):
        try:
            results[path.resolve()] = read_store(path) if path.is_dir() else read_log(path)
        except NoCertificates as error:
            empty.append(error)
    if not results:
        raise (
            empty[0]
            if empty
            else NoCertificates(
                "nothing to report: name a run folder, a store of certificates or a log; attacks are shown beside them"
            )
        )
    for reason in empty:
        python_warnings.warn(f"left out: {reason}", stacklevel=2)
    found = list(results.values())
    if len(found) == 1:
        return found
    places = [
        (_store_place(c.source) if c.manifest else _log_place(c.source), c.sigma) for c in found
    ]
    return [replace(c, name=name) for c, name in zip(found, distinct_names(places), strict=True)]


def _places(paths: Iterable[str | Path], empty: list[NoCertificates]) -> Iterable[Path]:
    for path in map(Path, paths):
        stores = stores_of(path)
        if is_attack_store(path):
            continue  # shown beside certificates, but none itself
        if path.is_file() or (path / "manifest.json").is_file():
            yield path
        elif stores:
            yield from stores
        elif (
            any((path / name).is_file() for name in ("config.yaml", "model.json"))
            or (path / "certify").is_dir()
        ):
            empty.append(
                NoCertificates(f"{path}: a run without certificates; smoothcert certify makes them")
            )
        elif below := find_results(path) if path.is_dir() else []:
            yield from _places(below, empty)
        elif path.exists():
            raise StoreError(
                f"{path}: expected a run folder (config.yaml, certify/), a store (manifest.json), a folder with some "
                f"below, or a log file, found none of them there{_logs_below(path)}"
            )
        else:
            raise StoreError(
                f"{path}: no such file or folder; expected a run folder, a store or a log file"
            )


def _logs_below(folder: Path) -> str:
    """How to name the logs of the field that lie in a folder, by patterns that find some."""
    kinds = {"of certificates": "*.tsv", "of training, for --draw losses": "log.txt"}
    found = []
    for kind, name in kinds.items():
        patterns = [
            pattern for depth in range(4) if any(folder.glob(pattern := "*/" * depth + name))
        ]
        found += [f"{folder}/{pattern} ({kind})" for pattern in patterns[:1]]
    return (
        f"; name logs as files, for example {' or '.join(found)}"
        if found
        else "; name one of these"
    )


def _fields(columns: dict[str, Column]) -> dict[str, Any]:
    wanted = ("idx", "label", "predict", "radius", "correct", "p_lower", "counts0", "counts")
    return {name: columns[name] for name in wanted if name in columns}


def _constant(columns: dict[str, Column], name: str) -> int | None:
    """The number that all rows share, if they do (a store with early stopping has many n)."""
    values = set(columns.get(name, ()))
    text = values.pop() if len(values) == 1 else ""
    return int(text) if text.isdecimal() else None


def _config(folder: Path, notes: list[str]) -> dict[str, Any] | None:
    """The config.yaml beside `certify/`; the certificates stand without it, so a damaged one is only noted."""
    path = folder.resolve().parent.parent / "config.yaml"
    if folder.resolve().parent.name != "certify" or not path.is_file():
        return None
    import yaml

    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        config = None
    if not isinstance(config, dict):
        notes.append("config.yaml cannot be read: training settings are not shown")
        return None
    return config


def _sigma_in(path: Path) -> float | None:
    """Published logs name sigma only in their path; the last mention is the noise certified with."""
    found = re.findall(r"(?:noise|sigma)_(\d+(?:\.\d+)?)", path.resolve().as_posix())
    return float(found[-1]) or None if found else None


def _store_place(folder: Path) -> Path:
    """`RUN/certify/NAME` -> `RUN/NAME`: the middle part tells a reader nothing."""
    folder = folder.resolve()
    return folder.parent.parent / folder.name if folder.parent.name == "certify" else folder


def _log_place(path: Path) -> Path:
    path = path.resolve()
    return path.with_suffix("") if path.suffix == ".tsv" else path


def _beyond(columns: dict[str, Column], sigma: float | None, n: int) -> tuple[str, ...]:
    """A word on radii that the field's samples do not give. No log says its alpha, and most do not say n."""
    largest = float(max(columns["radius"], default=0.0))
    limit = saturation_radius(sigma or 1.0, n, ALPHA, "gaussian")
    if sigma is None or largest <= 1.005 * limit:  # logs have three digits
        return ()
    return (
        f"its largest radius {largest:g} is more than {n} samples give at alpha {ALPHA:g} ({limit:.3f}): it was "
        "certified otherwise, or is wrong",
    )


def _incomplete(read: Column, idx: Column) -> Iterator[str]:
    """What the indices of a log tell: rows that stand in it twice, and gaps where the others are evenly spaced."""
    if len(read) > len(idx):
        yield f"repeated rows: {len(read) - len(idx)}, which count once"
    steps, often = np.unique(np.diff(idx), return_counts=True)
    if len(steps) < 2:
        return
    step = steps[often.argmax()]
    if 2 * often.max() > len(idx) - 1 and not (steps % step).any():
        missing = (idx[-1] - idx[0]) // step + 1 - len(idx)
        yield f"inputs missing between others, which are {step} apart: {missing}; the log may not be complete"


def _torn(path: Path) -> str:
    return f"{path.name}: unfinished last line left out"
