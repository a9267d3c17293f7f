"""Whether weights and data are those that a manifest names. Without PyTorch."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors

from smoothcert.errors import SmoothcertError
from smoothcert.runs.data_of import certified_data
from smoothcert.runs.seeds import seed_of_store
from smoothcert.verification.rows import Rows
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


def check_weights(verdict: Verdict, identity: dict[str, Any]) -> None:
    """The weights of the run folder that the store lies in, if it does."""
    run = verdict.store.resolve().parent.parent
    path = run / "weights.safetensors"
    if not path.is_file():
        verdict.notes.append("weights not checked: the store lies in no run folder with weights")
        return
    try:
        found = weights_file_hash(path)
        named = json.loads((run / "model.json").read_bytes())["weights"]
    except (
        safetensors.SafetensorError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        verdict.problems.append(f"{path.name} or model.json is damaged: {error}")
        return
    for name, hashed in (("the manifest", identity.get("model")), ("model.json", named)):
        if hashed != found:
            verdict.problems.append(
                f"{path.name} holds other weights ({found}) than {name} names ({hashed})"
            )


def check_seed(verdict: Verdict, identity: dict[str, Any]) -> None:
    """The seed of the noise is the one asked for, or the one that weights, data and procedure give, and no other."""
    found = identity.get("noise_seed")
    if found is None:
        verdict.notes.append(
            "the seed was chosen by hand or by default (written by an older version)"
        )
    elif found != seed_of_store(identity, str(identity.get("model")), str(identity.get("data"))):
        verdict.problems.append(
            f"manifest.json: noise_seed {found} is not the one that its settings give"
        )
    elif identity.get("seed") is not None:
        verdict.notes.append(f"the seed {found} was chosen by hand")


def check_data(
    verdict: Verdict, identity: dict[str, Any], rows: list[Rows], data_dir: Path | None
) -> Dataset | LazyDataset | None:
    """The certified data, its size and the labels of the rows; None, and a note, where the data is not here."""
    try:
        data = certified_data(verdict.store, identity, data_dir)
    except SmoothcertError as error:
        verdict.notes.append(
            "data, labels and whether inputs were left out not checked, since the data is not here "
            "(--data-dir says where it is): "
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
    for part in rows:
        for place, index, label in zip(
            part.places, part.idx.tolist(), part.label.tolist(), strict=True
        ):
            if index >= len(data) or int(data.labels[index]) != label:
                found = int(data.labels[index]) if index < len(data) else f"only {len(data)} inputs"
                verdict.problems.append(f"{place}: label {label}, but the data has {found}")
    return data
