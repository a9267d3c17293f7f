"""How far runs and certifications are, from their files alone (no PyTorch, no lock: safe while they run)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from smoothcert.errors import COLLAPSED, SmoothcertError, StoreError
from smoothcert.runs.check import require_sound
from smoothcert.runs.checks import checks_in_words
from smoothcert.runs.find import find_results, stores_of
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.store import ResultStore

_SETTINGS = (
    "sigma",
    "n0",
    "n",
    "alpha",
    "noise",
    "procedure",
    "radii",
    "tolerance",
    "simultaneous",
    "skip_wrong",
)


@dataclass(frozen=True)
class Training:
    """What was trained, and how far it is. `collapsed` means that most images get one and the same answer."""

    method: str
    dataset: str
    sigma: float
    epochs: int
    epochs_done: int
    loss: float | None = None
    noisy_test_accuracy: float | None = None
    most_frequent_answer: float | None = None
    collapsed: bool = False
    seconds_per_epoch: float | None = None
    seconds_left: float | None = None


@dataclass(frozen=True)
class StoreState:
    """One certification. `settings` are the entries of its manifest that decide what a certificate says."""

    name: str
    path: Path
    state: Literal["complete", "partial", "damaged"]
    problem: str | None = None
    done: int | None = None
    inputs: int | None = None
    settings: Mapping[str, Any] | None = None
    seconds_per_input: float | None = None
    seconds_left: float | None = None
    computed: Mapping[str, Any] | None = None
    checks: str | None = None


@dataclass(frozen=True)
class RunState:
    """`certificates` is a place with stores but without a model. `computed` is how the weights were made."""

    path: Path
    state: Literal["training", "trained", "imported", "certificates", "damaged"]
    problem: str | None = None
    training: Training | None = None
    computed: Mapping[str, Any] | None = None
    stores: tuple[StoreState, ...] = ()

    @property
    def problems(self) -> list[str]:
        return [
            problem
            for problem in (self.problem, *(store.problem for store in self.stores))
            if problem
        ]

    @property
    def finished(self) -> bool:
        """Nothing is known to be missing. Whether a trained model is still to be certified, no file says."""
        return self.state not in ("training", "damaged") and all(
            store.state == "complete" for store in self.stores
        )


def run_states(path: Path) -> list[RunState]:
    """The state of a run folder or a store, or of all that lie below a folder; a damaged one says so in its place."""
    run = RunFolder(path)
    if (
        run.config_path.is_file()
        or run.finished
        or (path / "manifest.json").is_file()
        or stores_of(path)
    ):
        return [_run_state(path)]
    if not path.is_dir():
        run.config()  # says what is wrong
    found = find_results(path)
    if not found:
        raise StoreError(
            f"{path} is not a run folder: it has no config.yaml, and no run or certificate store lies below it. "
            "`smoothcert train` makes one"
        )
    return [_run_state(place) for place in found]


def _run_state(path: Path) -> RunState:
    run = RunFolder(path)
    if (path / "manifest.json").is_file():
        return RunState(path, "certificates", stores=(_store_state(path),))
    stores = tuple(map(_store_state, stores_of(path)))
    made: list[dict[str, Any]] = []
    with suppress(StoreError):  # a damaged record of the environment is no reason to say nothing
        made = run.records("environment.jsonl")
    computed = made[-1] if made else None
    if not run.config_path.is_file() and (run.finished or stores):
        return RunState(
            path, "imported" if run.finished else "certificates", computed=computed, stores=stores
        )
    try:
        training = _training(run)
    except SmoothcertError as error:
        return RunState(path, "damaged", str(error), computed=computed, stores=stores)
    return RunState(
        path, "trained" if run.finished else "training", None, training, computed, stores
    )


def _training(run: RunFolder) -> Training:
    config = run.config()
    metrics = run.records("metrics.jsonl")
    last = _numbers(metrics)
    seconds = None if run.finished else _numbers(run.records("timing.jsonl")).get("seconds")
    answered = last.get("most_frequent_answer")
    return Training(
        method=str(config.method["name"]),
        dataset=config.dataset,
        sigma=config.sigma,
        epochs=config.epochs,
        epochs_done=len(metrics),
        loss=last.get("loss"),
        noisy_test_accuracy=last.get("noisy_test_accuracy"),
        most_frequent_answer=answered,
        collapsed=answered is not None and answered > COLLAPSED,
        seconds_per_epoch=seconds,
        seconds_left=None if seconds is None else seconds * (config.epochs - len(metrics)),
    )


def _numbers(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What can be computed with of the last record, which anyone may have written."""
    last = records[-1] if records else {}
    return {
        name: value
        for name, value in last.items()
        if isinstance(value, int | float) and abs(value) < 1e300
    }


def _store_state(folder: Path) -> StoreState:
    try:
        found = require_sound(folder, "`smoothcert verify` names all that is wrong")
        manifest, missing, identity = found.manifest, len(found.missing), found.manifest.described
        seconds = ResultStore(folder).mean_seconds() if missing else None
        checks = checks_in_words(folder)
    except StoreError as error:
        return StoreState(folder.name, folder, "damaged", str(error))
    computed = None
    if "skipped" in manifest.environment:
        steps = ", ".join(identity.get("prepared") or ())
        computed = {
            **manifest.environment,
            "kernels": steps,
            "precision": identity.get("precision"),
        }
    return StoreState(
        folder.name,
        folder,
        "partial" if missing else "complete",
        done=manifest.inputs - missing,
        inputs=manifest.inputs,
        settings={name: identity[name] for name in _SETTINGS if name in identity},
        seconds_per_input=seconds,
        seconds_left=None if seconds is None else seconds * missing,
        computed=computed,
        checks=checks,
    )
