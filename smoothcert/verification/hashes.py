"""Whether weights and data are those that a manifest names. Without PyTorch."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors

from smoothcert.errors import SmoothcertError
from smoothcert.runs.check import Checked
from smoothcert.runs.data_of import certified_data
from smoothcert.runs.folder import RunFolder, described
from smoothcert.verification.verdict import Verdict

if TYPE_CHECKING:
    from smoothcert.data import Dataset, LazyDataset

_TYPES = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint", "BOOL": "bool"}  # F32 is float32


def weights_file_hash(path: Path) -> str:
    """The `weights_hash` of the network in a safetensors file: name, type, shape and bytes of each tensor, by name."""
    digest = sha256()
    tensors = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    for name, tensor in sorted(tensors, key=lambda entry: entry[0]):
        letters = tensor["dtype"].rstrip("0123456789")
        kind = f"torch.{_TYPES.get(letters, letters)}{tensor['dtype'].removeprefix(letters)}"
        digest.update(repr((name, kind, tuple(tensor["shape"]))).encode())
        digest.update(tensor["data"])
    return digest.hexdigest()


def check_run(verdict: Verdict, identity: dict[str, Any]) -> None:
    """The run folder that the store lies in, if it does: its weights and model.json; and its other files are whole."""
    run = RunFolder(verdict.store.resolve().parent.parent)
    path = run.path / "weights.safetensors"
    weights = {"the manifest": identity.get("model")}
    try:
        if run.finished:
            weights["model.json"] = run.description().get("weights")
            found, named = described(verdict.store)["model_json"], identity.get("model_json")
            if named is None:
                verdict.problems.append(
                    "manifest.json does not say which model.json was certified: certify again"
                )
            elif found != named:
                verdict.problems.append(
                    "model.json is not the one that was certified: its architecture, options, preprocessing, classes "
                    f"or sigma have another hash ({found}) than the manifest names ({named})"
                )
        if run.config_path.is_file():
            run.config()
        for name in ("metrics.jsonl", "environment.jsonl"):
            run.records(name)
        if not path.is_file():
            verdict.notes.append(
                "weights not checked: the store lies in no run folder with weights"
            )
            return
        found = weights_file_hash(path)
    except (safetensors.SafetensorError, OSError) as error:
        verdict.problems.append(f"{path.name} is damaged: {error}")
        return
    except SmoothcertError as error:
        verdict.problems.append(str(error))
        return
    for name, hashed in weights.items():
        if hashed != found:
            verdict.problems.append(
                f"{path.name} holds other weights ({found}) than {name} names ({hashed})"
            )


def check_data(
    verdict: Verdict, identity: dict[str, Any], checked: Checked, data_dir: Path | None
) -> Dataset | LazyDataset | None:
    """The certified data, its size and the labels of the rows; None, and a note, where the data is not here."""
    try:
        data = certified_data(verdict.store, identity, data_dir)
    except SmoothcertError as error:
        verdict.notes.append(
            "data, labels and whether inputs were left out not checked, since the data is not here "
            "(data_dir says where it is): "
            + str(error).splitlines()[0].removesuffix("; looked in")  # a list of folders follows
        )
        return None
    if data.fingerprint() != identity.get("data"):
        verdict.problems.append(
            f"{data.name} ({data.split}) as found here is not the data that was certified"
        )
        return None
    verdict.available = len(data)
    start, every = identity.get("start") or 0, identity.get("every") or 1
    if verdict.inputs != (chosen := len(range(start, len(data), every)[: identity.get("max")])):
        verdict.problems.append(
            f"manifest.json: inputs {verdict.inputs}, but its start, every and max choose {chosen:,} of {len(data):,} "
            "inputs of the data set"
        )
    rows = (checked.columns[name].tolist() for name in ("idx", "label") if checked.columns)
    for place, index, label in zip(checked.places, *rows, strict=checked.rows > 0):
        if index >= len(data) or int(data.labels[index]) != label:
            found = int(data.labels[index]) if index < len(data) else f"only {len(data)} inputs"
            verdict.problems.append(f"{place}: label {label}, but the data has {found}")
    return data
