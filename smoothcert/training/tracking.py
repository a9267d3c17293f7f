"""Metrics to TensorBoard or Weights & Biases, beside metrics.jsonl, by ``--track``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from smoothcert.errors import MissingExtra, unknown_name


class Tracker(Protocol):
    def log(self, metrics: Mapping[str, float], epoch: int) -> None: ...
    def close(self) -> None: ...


class TensorBoard:
    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))
        self._writer.add_text(
            "config", "\n".join(f"    {key}: {value}" for key, value in config.items())
        )

    def log(self, metrics: Mapping[str, float], epoch: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        self._writer.close()


class WandB:
    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        import wandb

        project = os.environ.get("WANDB_PROJECT", "smoothcert")
        self._run: Any = wandb.init(
            project=project, name=folder.name, config=dict(config), dir=str(folder)
        )

    def log(self, metrics: Mapping[str, float], epoch: int) -> None:
        self._run.log(dict(metrics), step=epoch)

    def close(self) -> None:
        self._run.finish()


_TRACKERS: dict[str, Callable[[Path, Mapping[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
}


def check_trackers(names: Sequence[str]) -> None:
    for name in names:
        if name not in _TRACKERS:
            raise unknown_name("tracker", name, _TRACKERS)
        try:
            installed = find_spec(name) is not None
        except ValueError:  # a module that sys.modules marks as missing
            installed = False
        if not installed:
            raise MissingExtra(name, name, f"tracking by {name}")


def open_trackers(names: Sequence[str], folder: Path, config: Mapping[str, Any]) -> list[Tracker]:
    return [_TRACKERS[name](folder, config) for name in names]
