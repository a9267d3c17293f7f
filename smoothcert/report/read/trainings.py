"""Epochs of trainings: metrics.jsonl of run folders, finished or not, and the training logs of the field's releases."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.errors import StoreError
from smoothcert.report.read.methods import method_in, recognised_method
from smoothcert.report.read.names import distinct_names, one_line
from smoothcert.runs.find import find_results

# column of a released log -> entry of metrics.jsonl; accuracies are in % there
_COLUMNS = {"epoch": "epoch", "lr": "lr", "train loss": "loss", "test acc": "noisy_test_accuracy"}
# What released logs of a method call the train loss, where it is a part of the loss: the one without regularisers.
# Seen in the numbers: those of our own epochs are the same.
_LOGGED = {
    "stability": "cross_entropy",
    "macer": "cross_entropy",
    "consistency": "cross_entropy",
    "catrs": "low",
}
_LARGEST = 1e300  # differences of such numbers are finite


@dataclass(frozen=True)
class Training:
    """`key` is the method if it is known, else the name; an epoch has the entries of a line of metrics.jsonl.

    `loss` is the entry that is shown as its loss: beside a released log, what the log has of such a loss.
    """

    name: str
    key: str
    epochs: Sequence[Mapping[str, Any]]
    loss: str = "loss"


def is_training_log(path: str | Path) -> bool:
    """Whether a file has the header of a training log; one of certificates begins with `idx`."""
    try:
        with Path(path).open("rb") as file:
            return file.readline(400).split(b"\t")[0].strip() == b"epoch"
    except OSError:
        return False


def read_training_log(path: str | Path) -> list[dict[str, float]]:
    """Read `epoch time lr train-loss train-acc test-loss test-acc`, tab-separated, in any order, more columns allowed.

    A last line without an end is one that is being written, and left out with a warning.
    """
    path = Path(path)
    header, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines(
        keepends=True
    ) or [""]
    columns = [name.strip() for name in header.split("\t")]
    missing = [name for name in ("epoch", "train loss") if name not in columns]
    if missing:
        raise StoreError(
            f"{path}: expected a training log with the column {missing[0]}, found {', '.join(columns)}"
        )
    epochs = []
    if lines and not lines[-1].endswith("\n"):
        warnings.warn(f"{path}: unfinished last line left out", stacklevel=2)
        lines.pop()
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        cells = dict(zip(columns, line.split("\t"), strict=False))
        try:
            epoch = {
                entry: float(cells[column])
                for column, entry in _COLUMNS.items()
                if column in columns
            }
        except (KeyError, ValueError) as error:
            raise StoreError(
                f"{path}, line {number}: expected a number in each of {len(columns)} columns, found {line.strip()!r}"
            ) from error
        if "noisy_test_accuracy" in epoch:
            epoch["noisy_test_accuracy"] /= 100
        epochs.append(epoch)
    _mend_rates(epochs)
    return epochs


def _mend_rates(epochs: Sequence[dict[str, float]]) -> None:
    """The field's code prints PyTorch's `get_lr()`, which is one drop too low in the first epoch after each drop."""
    for before, epoch, after in zip(epochs, epochs[1:], epochs[2:], strict=False):
        if "lr" in epoch and epoch["lr"] < after["lr"] < before["lr"]:
            epoch["lr"] = after["lr"]


def read_trainings(*paths: str | Path) -> list[Training]:
    """The trainings of run folders, of those below other folders, and of released logs; others have none.

    Runs need not be finished, and need no certificates.
    """
    found = {place: epochs for path in map(Path, paths) for place, epochs in _found(path)}
    if not found:
        return []
    names = distinct_names([(place, None) for place in found])
    beside_log = any(not (place / "metrics.jsonl").is_file() for place in found)
    trainings: list[Training] = []
    datasets: dict[str, str] = {}
    for name, (place, epochs) in zip(names, found.items(), strict=True):
        config = _config(place)
        method = (recognised_method(place.parts) if config is None else method_in(config)) or name
        if config and isinstance(data := config.get("dataset"), str):
            datasets.setdefault(one_line(data), one_line(name))
        part = _LOGGED.get(method, "loss") if beside_log else "loss"
        loss = part if any(part in epoch for epoch in epochs) else "loss"
        trainings.append(Training(one_line(name), method, epochs, loss))
    if len(datasets) > 1:
        told = ", ".join(f"{data} ({name})" for data, name in datasets.items())
        warnings.warn(
            f"the trainings are on different data sets and do not compare: {told}", stacklevel=2
        )
    return trainings


def _found(path: Path) -> Iterable[tuple[Path, Sequence[Mapping[str, Any]]]]:
    from smoothcert.runs.folder import RunFolder

    if path.is_file():
        if is_training_log(path):
            yield (
                path.resolve().parent if path.name == "log.txt" else path.resolve(),
                read_training_log(path),
            )
        return
    if not path.exists():
        raise StoreError(f"{path}: no such file or folder; expected a run folder or a training log")
    runs = [path] if (path / "metrics.jsonl").is_file() else find_results(path)
    for run in runs:
        if epochs := RunFolder(run).records("metrics.jsonl"):
            yield run.resolve(), epochs


def _config(place: Path) -> dict[str, Any] | None:
    """The configuration of a run; None where there is none that can be read."""
    import yaml

    try:
        config = yaml.safe_load((place / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return config if isinstance(config, dict) else None


def finite(epoch: Mapping[str, Any], *entries: str) -> bool:
    """Whether an epoch has numbers there, which can be drawn."""
    values = [epoch.get(entry) for entry in entries]
    return all(type(value) in (int, float) and abs(value) < _LARGEST for value in values)  # type: ignore[arg-type]
