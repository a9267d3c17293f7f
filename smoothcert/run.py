"""The run folder: one configuration, its metrics, its resumable state, its weights, its certificates.

``config.yaml  metrics.jsonl  timing.jsonl  state.pt  weights.safetensors  model.json  certify/<name>/``

`state.pt` alone says how far a run is: it names the length of metrics.jsonl that belongs to it, and whatever a killed
process wrote beyond is cut on resume. metrics.jsonl holds only what the seed decides; speeds are in timing.jsonl.
"""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from smoothcert.config import TrainConfig, build_dataclass, dump_config, read_config
from smoothcert.errors import ModelError, StoreError
from smoothcert.files import atomic_write, write_error

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelSpec:
    """model.json: what must be known beside the weights to use a network."""

    architecture: str
    classes: int
    normalisation: str
    sigma: float
    dataset: str
    shape: tuple[int, ...]
    class_names: tuple[str, ...] = ()
    input_range: tuple[float, float] = (0.0, 1.0)


class RunFolder:
    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def config_path(self) -> Path:
        return self.path / "config.yaml"

    @property
    def finished(self) -> bool:
        return (self.path / "model.json").is_file()

    def config(self) -> TrainConfig:
        if not self.config_path.is_file():
            raise StoreError(f"{self.path} is not a run folder: it has no config.yaml. `smoothcert train` makes one")
        return read_config(self.config_path)

    def claim(self, config: TrainConfig) -> None:
        """Make the folder this configuration's, or check that it already is; another one's is left alone."""
        if not self.config_path.exists():
            if self.path.exists() and any(entry.name != ".lock" for entry in self.path.iterdir()):
                raise StoreError(f"{self.path} holds files but no config.yaml: give --out an empty or a new folder")
            with atomic_write(self.config_path) as file:
                file.write(dump_config(config).encode())
            return
        there, wanted = (dataclasses.asdict(entry) for entry in (self.config(), config))
        differing = [
            f"{key}: {there[key]!r} there, {wanted[key]!r} asked" for key in wanted if there[key] != wanted[key]
        ]
        if differing:
            raise StoreError(
                f"{self.path} belongs to another configuration ({'; '.join(differing)}): "
                "choose another --out, or give the same settings to resume"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One trainer a folder: two would overwrite each other's state."""
        with open_locked(self.path / ".lock", f"another process is training in {self.path}"):
            yield

    def append(self, name: str, record: Mapping[str, Any]) -> int:
        """Add one line to a .jsonl file, durably; returns the file's new length in bytes."""
        path = self.path / name
        try:
            with path.open("ab") as file:
                file.write((json.dumps(record) + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
                return file.tell()
        except OSError as error:
            raise write_error(path, error) from error

    def truncate(self, name: str, length: int) -> None:
        path = self.path / name
        if path.exists() and path.stat().st_size > length:
            os.truncate(path, length)

    def records(self, name: str) -> list[dict[str, Any]]:
        """The complete lines of a .jsonl file; a torn last line is a write in progress."""
        path = self.path / name
        if not path.is_file():
            return []
        text = path.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def save_state(self, state: Mapping[str, Any]) -> None:
        import torch

        buffer = io.BytesIO()  # in memory first: a full disk then is an ordinary OSError of one write
        torch.save(dict(state), buffer)
        with atomic_write(self.path / "state.pt") as file:
            file.write(buffer.getbuffer())

    def load_state(self) -> dict[str, Any] | None:
        import torch

        path = self.path / "state.pt"
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds for a damaged file
            raise StoreError(f"{path} is damaged ({error}): delete it to train this run from the start") from error
        return state

    def save_model(self, model: nn.Module, spec: ModelSpec) -> None:
        """Weights first, model.json last: its presence means that the run is finished."""
        from smoothcert.models.weights import save_weights

        save_weights(model, self.path / "weights.safetensors")
        with atomic_write(self.path / "model.json") as file:
            file.write((json.dumps(dataclasses.asdict(spec), indent=2) + "\n").encode())

    def spec(self) -> ModelSpec:
        path = self.path / "model.json"
        if not path.is_file():
            self.config()  # the clearer error when this is no run folder at all
            raise StoreError(f"{self.path} has no finished model: run `smoothcert train` with its settings to the end")
        try:
            values = json.loads(path.read_text())
        except ValueError as error:
            raise StoreError(f"{path} is damaged: {error}") from error
        return build_dataclass(ModelSpec, values, f"entry of {path}")

    def load_model(self) -> tuple[nn.Module, ModelSpec]:
        from smoothcert.models.build import build_model
        from smoothcert.models.weights import load_weights

        spec = self.spec()
        model = build_model(spec.architecture, spec.classes, spec.normalisation, seed=0)
        path = self.path / "weights.safetensors"
        if not path.is_file():
            raise ModelError(f"{path} is missing though model.json is there: the run folder is damaged")
        load_weights(model, path)
        return model.eval(), spec


@contextmanager
def open_locked(path: Path, busy: str) -> Iterator[TextIO]:
    """A file opened for appending under an exclusive lock, which the system releases even after kill -9."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise write_error(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"{busy}: wait for it to end, or stop it") from error
        yield file
