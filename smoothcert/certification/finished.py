"""Whether a certification has nothing to do, told without running the network: workers need not be started for that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from smoothcert.config import CertifyConfig
from smoothcert.noise.streams import stream
from smoothcert.runs.identity import written_out
from smoothcert.runs.remote_store import RemoteStore
from smoothcert.runs.store import ResultStore

# noise_seed stands for the first two, and max may be smaller than it was
_ASIDE = ("seed", "beacon", "max")


def is_finished(
    store: ResultStore,
    config: CertifyConfig,
    about: Mapping[str, Any],
    *,
    wanted: Sequence[int],
    inputs: int,
    device: str | torch.device | None,
) -> bool:
    """Whether the store has all `wanted` rows, and is surely of these settings and `about` the same.

    Where this is not sure, the answer is no: workers then find out, and the store says what differs.
    """
    if isinstance(store, RemoteStore) or not store.exists:  # a server may have other rows than its copy here
        return False
    there = store.manifest()
    if there.inputs < inputs or (config.simultaneous and there.inputs != inputs):
        return False
    known = written_out(there.identity)
    asked = {**vars(config), **about, "noise_stream": stream(config.noise)}
    if config.precision == "auto":
        del asked["precision"]
    kind = str(known.get("device_type")).partition(" ")[0]  # of cuda (NVIDIA H200)
    if device is not None and str(device) not in ("auto", kind):
        return False
    asked = json.loads(json.dumps({name: value for name, value in asked.items() if name not in _ASIDE}))
    return all(known.get(name) == value for name, value in asked.items()) and store.done().issuperset(wanted)
