"""How far runs and certifications are, from their files alone (no PyTorch, no lock: safe while they run)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from smoothcert.errors import COLLAPSED, StoreError
from smoothcert.progress import time_left
from smoothcert.runs.checks import checks_in_words
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.store import ResultStore


def status_lines(path: Path) -> list[str]:
    run = RunFolder(path)
    lines = [f"{path}: {_training(run)}"]
    made: list[dict[str, Any]] = []
    with suppress(StoreError):  # a damaged record of the environment is no reason to say nothing
        made = run.records("environment.jsonl")
    if made:
        lines.append(f"  {_computed(made[-1])}")
    for manifest in sorted(path.glob("certify/*/manifest.json")):
        store = ResultStore(manifest.parent)
        lines.append(f"  certify {manifest.parent.name}: {_certification(store)}")
        about = store.manifest()
        if "skipped" in about.environment:
            steps = ", ".join(about.identity.get("prepared") or ())
            how = {"kernels": steps, "precision": about.identity.get("precision")}
            lines.append(f"    {_computed({**about.environment, **how})}")
        if checks := checks_in_words(store.folder):
            lines.append(f"    {checks}")
    return lines


def _computed(record: Mapping[str, Any]) -> str:
    """Where and with which kernels, and if not with our own, why. What the record does not say is left out."""
    reasons = "; ".join(record.get("skipped") or ())
    kernels = f"{record.get('kernels') or 'PyTorch alone'}{f' ({reasons})' if reasons else ''}"
    precision = [str(record["precision"])] if record.get("precision") else []
    return ", ".join([f"computed on {record.get('device', 'an unknown device')}", *precision, kernels])


def _training(run: RunFolder) -> str:
    if run.finished and not run.config_path.is_file():
        return "imported model"
    config = run.config()
    metrics, timing = run.records("metrics.jsonl"), run.records("timing.jsonl")
    what = f"{config.method['name']} on {config.dataset}, sigma {config.sigma:g}"
    done = f"epoch {len(metrics)} of {config.epochs}"
    if metrics:
        done += f", loss {metrics[-1]['loss']:.4g}"
        accuracy = metrics[-1].get("noisy_test_accuracy")
        done += f", noisy test accuracy {100 * accuracy:.1f} %" if accuracy is not None else ""
        answered = metrics[-1].get("most_frequent_answer", 0.0)
        done += f", COLLAPSED: one answer for {100 * answered:.0f} % of the images" if answered > COLLAPSED else ""
    if run.finished:
        return f"{what}: trained, {done}"
    if not timing:
        return f"{what}: {done}"
    seconds = timing[-1]["seconds"]
    left = time_left(seconds * (config.epochs - len(metrics)))
    return f"{what}: {done}, {seconds:.3g} s per epoch, {left} left at that speed"


def _certification(store: ResultStore) -> str:
    manifest, done = store.manifest(), len(store.done())
    try:
        settings = _settings(manifest.identity)
    except (KeyError, TypeError) as error:
        raise StoreError(f"{store.folder / 'manifest.json'} lacks settings of a certification ({error})") from error
    if done >= manifest.inputs:
        return f"all {manifest.inputs} inputs done ({settings})"
    text = f"{done} of {manifest.inputs} inputs done, {manifest.inputs - done} missing ({settings})"
    seconds = store.mean_seconds()
    if seconds is None:
        return text
    return f"{text}, {seconds:.3g} s per input, {time_left(seconds * (manifest.inputs - done))} left for one process"


def _settings(identity: Mapping[str, Any]) -> str:
    kind = identity.get("procedure", "fixed")
    most = "n" if kind == "fixed" else "n at most"
    parts = [f"{most} {identity['n']}", f"alpha {identity['alpha']:g}", f"{identity['noise']} noise"]
    if kind == "radius":
        parts.insert(0, "radii " + " ".join(f"{radius:g}" for radius in identity["radii"]))
    if kind == "tolerance":
        parts.insert(0, f"tolerance {identity['tolerance']:g}")
    if identity.get("simultaneous"):
        parts.append("all inputs at once")
    if identity.get("skip_wrong"):
        parts.append("wrong inputs skipped")
    return ", ".join(parts)
