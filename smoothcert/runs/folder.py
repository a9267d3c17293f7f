"""The run folder: one configuration, its metrics, its resumable state, its weights, its certificates.

    config.yaml  metrics.jsonl  timing.jsonl  environment.jsonl  state.pt  weights.safetensors  model.json
    certify/<name>/  attack/<name>/

`state.pt` alone says how far a run is: it names the length of metrics.jsonl that belongs to it, and whatever a killed
process wrote beyond is cut on resume. metrics.jsonl holds only what the seed decides; speeds are in timing.jsonl, and
environment.jsonl has one line per start: versions, device, precision, kernels.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from smoothcert.config import TrainConfig, checked, dump_config, read_config
from smoothcert.errors import ModelError, StoreError
from smoothcert.files import atomic_write, remove_leftovers, write_error
from smoothcert.runs.code import code_named, hashes_of, with_code
from smoothcert.runs.identity import require_same
from smoothcert.runs.locks import locked

if TYPE_CHECKING:
    from torch import nn

_DIGEST = 32  # bytes of a SHA-256
_PLACES = ("weights", "dataset", "source", "folders")  # of model.json: where things lie


@dataclass(frozen=True)
class ModelSpec:
    """model.json: what must be known beside the weights to use a network."""

    architecture: str
    classes: int  # 0: a denoiser
    normalisation: str
    sigma: float
    dataset: str
    shape: tuple[int, ...]
    class_names: tuple[str, ...] = ()
    weights: str = ""  # their hash, filled in when they are saved
    data: str = ""  # hash of the training data, and after a + of the pseudo-labelled
    options: dict[str, Any] = field(
        default_factory=dict
    )  # of the architecture, beside the number of classes
    source: str = ""  # of the weights of a network that was trained elsewhere
    # of networks that are none of ours: the hash of each file, and the folder of them from this one
    code: dict[str, dict[str, str]] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)


class RunFolder:
    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def config_path(self) -> Path:
        return self.path / "config.yaml"

    @property
    def finished(self) -> bool:
        return (self.path / "model.json").is_file()

    @property
    def has_weights(self) -> bool:
        return (self.path / "weights.safetensors").is_file()

    def config(self) -> TrainConfig:
        if not self.path.exists():
            raise StoreError(f"no run folder at {self.path}: `smoothcert train` makes one")
        if not self.config_path.is_file():
            raise StoreError(
                f"{self.path} is not a run folder: it has no config.yaml. `smoothcert train` makes one"
            )
        return read_config(self.config_path)

    def claim(self, config: TrainConfig) -> None:
        """Make the folder this configuration's, or check that it already is; never take one of other settings."""
        if not self.config_path.exists():
            remove_leftovers(self.path)  # of a process killed while it wrote this very file
            self._require_empty()
            with atomic_write(self.config_path) as file:
                file.write(dump_config(config).encode())
            return
        remove_leftovers(self.path)
        self.check(config)

    def _require_empty(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file: choose a folder that can be written")
        entries = list(self.path.iterdir()) if self.path.exists() else []
        if any(entry.name != ".lock" and not entry.match(".*.tmp") for entry in entries):
            raise StoreError(
                f"{self.path} holds files but no config.yaml: give an empty or a new folder"
            )

    def check(self, config: TrainConfig) -> None:
        """Refuse a folder of another configuration; a folder without one is free."""
        if not self.config_path.exists():
            return
        # compared as they are written: YAML knows no tuples
        there, asked = (yaml.safe_load(dump_config(entry)) for entry in (self.config(), config))
        for entry in (there, asked):
            del entry["soft_labels"]["folder"]  # where the labels lie does not decide what they are
        require_same(
            there,
            asked,
            holds=f"{self.path} belongs to another configuration",
            advice="choose another folder, or give the same settings to resume",
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One trainer per folder: two would overwrite each other's state."""
        if not self.config_path.exists():
            self._require_empty()  # before a lock is left in a folder of something else
        with locked(self.path / ".lock", f"another process is training in {self.path}"):
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
        size = path.stat().st_size if path.exists() else 0
        if size < length:
            raise StoreError(
                f"{path} is damaged: expected at least {length} bytes, found {size}: put a copy in its place, or "
                "train again in a new folder"
            )
        if size > length:
            os.truncate(path, length)

    def cut_torn_line(self, name: str) -> None:
        path = self.path / name
        if path.exists():
            self.truncate(name, path.read_bytes().rfind(b"\n") + 1)

    def records(self, name: str) -> list[dict[str, Any]]:
        """The complete lines of a .jsonl file; a torn last line is a write in progress."""
        path = self.path / name
        if not path.is_file():
            return []
        records = []
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise StoreError(
                    f"{path}, line {number}: expected a JSON object, found {line[:60]!r}: delete that line"
                )
            records.append(record)
        return records

    def save_state(self, state: Mapping[str, Any]) -> None:
        """The state, followed by its SHA-256: PyTorch's own format does not notice a flipped bit."""
        import torch

        # in memory first: a full disk then is an ordinary OSError of one write
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        with atomic_write(self.path / "state.pt") as file:
            file.write(buffer.getbuffer())
            file.write(sha256(buffer.getbuffer()).digest())

    def load_state(self) -> dict[str, Any] | None:
        import torch

        path = self.path / "state.pt"
        if not path.exists():
            return None
        content = path.read_bytes()
        content, digest = content[:-_DIGEST], content[-_DIGEST:]
        if sha256(content).digest() != digest:
            raise StoreError(
                f"{path} is damaged (wrong checksum): delete it to train this run from the start"
            )
        state: dict[str, Any] = torch.load(
            io.BytesIO(content), map_location="cpu", weights_only=True
        )
        return state

    def save_model(self, model: nn.Module, spec: ModelSpec) -> None:
        """Weights first, model.json last: its presence means that the run is finished."""
        from smoothcert.models.weights import save_weights

        save_weights(model, self.path / "weights.safetensors")
        spec = self.with_hashes(model, spec)
        with atomic_write(self.path / "model.json") as file:
            file.write((json.dumps(dataclasses.asdict(spec), indent=2) + "\n").encode())

    def with_hashes(self, model: nn.Module, spec: ModelSpec) -> ModelSpec:
        """The description with what only weights and code say."""
        from smoothcert.models.weights import weights_hash

        code, folders = hashes_of(spec, self.path.resolve())
        return dataclasses.replace(spec, weights=weights_hash(model), code=code, folders=folders)

    def description(self) -> dict[str, Any]:
        """model.json as it is written."""
        path = self.path / "model.json"
        if not path.is_file():
            self.config()  # the clearer error when this is no run folder at all
            raise StoreError(
                f"{self.path} has no finished model: run `smoothcert train` with its settings to the end"
            )
        try:
            values = json.loads(path.read_text())
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path} is damaged: {error}") from error
        if not isinstance(values, dict):
            raise StoreError(f"{path} is damaged: expected an object, found {values!r}")
        return values

    def spec(self) -> ModelSpec:
        values = self.description()
        return checked(ModelSpec, values, f"entry of {self.path / 'model.json'}")

    def load_model(
        self, *, trust_code: bool = False, trusted: str = "", denoiser: bool = False
    ) -> tuple[nn.Module, ModelSpec]:
        """The finished network in eval mode, and its description: a classifier, or a `denoiser` if one is asked for.

        A network outside of this package is named by its code, and whoever wrote the folder chose what that imports
        and runs. It is followed only with `trust_code`, or if it is what the settings at hand name too, `trusted`. If
        its files are no longer those that the run was made with, it would be another network, and is refused.
        """
        from smoothcert.models.build import build_model, initialise
        from smoothcert.models.weights import load_weights, weights_hash

        spec = self.spec()
        if denoiser and spec.classes:
            raise ModelError(
                f"expected a denoiser in {self.path}, found a classifier, {spec.architecture}"
            )
        if not denoiser and not spec.classes:
            raise ModelError(
                f"{self.path} is a denoiser, which names no classes: put it before a classifier by "
                f"`smoothcert denoised --denoiser {self.path} --classifier RUN --out NEW`"
            )
        code = [name for name in code_named(spec) if name != trusted]
        if code and not trust_code:
            raise ModelError(
                f"{self.path} names the network '{code[0]}', and loading it would run that Python code. If "
                "you trust it and whoever made the folder, say so: --trust-code, in Python "
                f"load_model(trust_code=True), or, to train on from there, --model {code[0]}"
            )
        spec = with_code(spec, self.path.resolve(), trusted)
        model = build_model(
            spec.architecture, spec.classes, spec.normalisation, seed=0, **spec.options
        )
        initialise(model, spec.shape)  # lazy layers have no weights before
        path = self.path / "weights.safetensors"
        if not path.is_file():
            raise ModelError(
                f"{path} is missing though model.json is there: the run folder is damaged"
            )
        load_weights(model, path)
        if spec.weights and weights_hash(model) != spec.weights:
            raise ModelError(f"{path} is damaged: its weights are not those that model.json names")
        return model.eval(), spec


def described(store: Path) -> dict[str, str]:
    """How the manifest of a store names the model.json of the run folder that it lies in, if it lies in one.

    By a hash of all that decides what the network does with an image, but for the weights, which have a hash of their
    own, and the places where data and weights lay, which may be others on another machine.
    """
    run = RunFolder(store.resolve().parent.parent)
    if not run.finished:
        return {}
    values = run.description().items()
    known = {key: value for key, value in values if key not in _PLACES}
    return {"model_json": sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()}
