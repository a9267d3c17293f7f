"""The state of runs and certifications in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from smoothcert.progress import all_of, noun, time_left
from smoothcert.runs.state import RunState, StoreState, Training
from smoothcert.statistics.printed import in_percent


def run_lines(run: RunState) -> Iterator[str]:
    if run.stores and run.stores[0].path == run.path:  # a store that lies in no run folder
        yield f"{run.path}: {_certification(run.stores[0])}"
        yield from (f"  {line}" for line in _details(run.stores[0]))
        return
    yield f"{run.path}: {_run(run)}"
    if run.computed is not None:
        yield f"  {_computed(run.computed)}"
    for store in run.stores:
        yield f"  certify {store.name}: {_certification(store)}"
        yield from (f"    {line}" for line in _details(store))


def _run(run: RunState) -> str:
    if run.training is not None:
        return _training(run.training, run.state == "trained")
    words = {"imported": "imported model", "certificates": "certificates without a model"}
    return words.get(run.state) or f"DAMAGED: {run.problem}"


def _training(training: Training, finished: bool) -> str:
    what = f"{training.method} on {training.dataset}, sigma {training.sigma:g}"
    done = f"epoch {training.epochs_done} of {training.epochs}"
    if training.loss is not None:
        done += f", loss {training.loss:.4g}"
    if training.noisy_test_accuracy is not None:
        done += f", noisy test accuracy {in_percent(training.noisy_test_accuracy)} %"
    if training.collapsed:
        share = in_percent(training.most_frequent_answer, digits=0)
        done += f", COLLAPSED: one answer for {share} % of the images"
    if finished:
        return f"{what}: trained, {done}"
    if training.seconds_per_epoch is None or training.seconds_left is None:
        return f"{what}: {done}"
    left = time_left(training.seconds_left)
    return (
        f"{what}: {done}, {training.seconds_per_epoch:.3g} s per epoch, {left} left at that speed"
    )


def _certification(store: StoreState) -> str:
    if store.settings is None or store.done is None or store.inputs is None:
        return f"DAMAGED: {store.problem}"
    settings = _settings(store.settings)
    if store.state == "complete":
        return f"{all_of(store.inputs, 'input')} done ({settings})"
    done = f"{store.done} of {store.inputs} {noun(store.inputs, 'input')} done"
    text = f"{done}, {store.inputs - store.done} missing ({settings})"
    if store.seconds_per_input is None or store.seconds_left is None:
        return text
    return f"{text}, {store.seconds_per_input:.3g} s per input, {time_left(store.seconds_left)} left for one process"


def _details(store: StoreState) -> Iterator[str]:
    if store.computed is not None:
        yield _computed(store.computed)
    if store.checks:
        yield store.checks


def _computed(record: Mapping[str, Any]) -> str:
    """Where and with which kernels, and if not with our own, why. What the record does not say is left out."""
    reasons = "; ".join(record.get("skipped") or ())
    kernels = f"{record.get('kernels') or 'PyTorch alone'}{f' ({reasons})' if reasons else ''}"
    precision = [str(record["precision"])] if record.get("precision") else []
    return ", ".join(
        [f"computed on {record.get('device', 'an unknown device')}", *precision, kernels]
    )


def _settings(settings: Mapping[str, Any]) -> str:
    kind = settings.get("procedure", "fixed")
    most = "n" if kind == "fixed" else "n at most"
    parts = [
        f"{most} {settings['n']}",
        f"alpha {settings['alpha']:g}",
        f"{settings['noise']} noise",
    ]
    if kind == "radius":
        parts.insert(0, "radii " + " ".join(f"{radius:g}" for radius in settings["radii"]))
    if kind == "tolerance":
        parts.insert(0, f"tolerance {settings['tolerance']:g}")
    if settings.get("simultaneous"):
        parts.append("all inputs at once")
    if settings.get("skip_wrong"):
        parts.append("wrong inputs skipped")
    return ", ".join(parts)
