"""Some inputs of a store certified again, with the same noise, by the code that certifies. Needs PyTorch."""

from __future__ import annotations

import dataclasses
import math
import random
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.config import CertifyConfig, check_seed
from smoothcert.errors import ConfigError, StoreError
from smoothcert.runs.counts import class_counts, top_class, written
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.identity import one_network
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore
from smoothcert.verification.rounding import explained, lean
from smoothcert.verification.verdict import Verdict

if TYPE_CHECKING:
    import torch
    from torch import nn

    from smoothcert.data import Dataset, LazyDataset

_COUNTED = ("label", "counts0", "counts", "path")
_SAME = ("model", "network", "classes", "data")
_MACHINE = (
    "device_type",
    "precision",
    "prepared",
    "torch",
    "device",
    "cpu",
)  # may be others elsewhere, and so may rounding


@dataclass(frozen=True)
class Resampling:
    """How many inputs: a share such as 1%, or a number; chosen by the system's randomness if there is no seed."""

    amount: str
    seed: int | None = None
    device: str = "auto"
    quiet: bool = False
    trust_code: bool = False  # of a network that the run folder names by a dotted path

    def __post_init__(self) -> None:
        self.inputs(100)  # refuses what is no amount
        check_seed("seed", self.seed)  # Python takes -5 for 5

    def inputs(self, rows: int) -> int:
        """How many of so many rows, at least one."""
        share = self.amount.endswith("%")
        try:
            amount = float(self.amount[:-1]) / 100 if share else int(self.amount)
        except ValueError:
            amount = -1
        if not (0 < amount <= 1 if share else amount >= 1):
            raise ConfigError(
                f"--resample takes a share such as 1% or a number of inputs, found {self.amount!r}"
            )
        return min(rows, max(1, math.ceil(amount * rows) if share else int(amount)))

    def check(
        self, verdict: Verdict, manifest: Manifest, data: Dataset | LazyDataset | None
    ) -> None:
        """Certify the chosen inputs again, and name every one whose row comes out otherwise."""
        if data is None:
            raise StoreError(
                f"{verdict.name} cannot be sampled again without its data, {manifest.identity.get('dataset')}: name "
                "the folder that holds it as data_dir"
            )
        if not _run_of(verdict).finished:
            raise StoreError(
                f"{verdict.name} cannot be sampled again without the network, in RUN of RUN/certify/NAME"
            )
        stored = {int(row["idx"]): row for row in ResultStore(verdict.store).rows()}
        if not stored:
            return
        source = random.SystemRandom() if self.seed is None else random.Random(self.seed)
        chosen = sorted(source.sample(sorted(stored), self.inputs(len(stored))))
        here, again = self._certify(verdict, manifest, data, chosen)
        there = _made(manifest)
        changed = {
            name: f"{there[name]} there, {here[name]} here"
            for name in there
            if there[name] != here.get(name, there[name])
        }
        if one_network(there, here):  # which another PyTorch may print otherwise
            changed.pop("network", None)
        verdict.problems += [f"{name}: {changed[name]}" for name in _SAME if name in changed]
        other = [f"{name} {changed[name]}" for name in _MACHINE if name in changed]
        if manifest.environment.get("merged"):
            other.append("several machines made the store")
        verdict.resampled, verdict.elsewhere = len(again), bool(other)
        if other:
            verdict.notes.append(
                f"sampled again elsewhere ({'; '.join(other)}), where rounding may be another"
            )
        rules, noise, flipped, votes = manifest.procedure, manifest.certified.noise, 0, 0
        looks = rules.stopping.looks
        alike = self._to_the_same_look(verdict, manifest, data, stored, again) if other else {}
        for index, row in again.items():
            votes += _votes(row, row)
            if text := _difference(stored[index], row):
                verdict.differ.append(index)
                fine = bool(other) and explained(stored[index], alike[index], noise, looks)
                flipped += _votes(stored[index], alike[index], differing=True) if fine else 0
                tell = verdict.notes if fine else verdict.problems
                tell.append(f"input {index} sampled again: {text}")
        if flipped:
            verdict.notes.append(
                f"{flipped:,} of {votes:,} votes came out otherwise, as rounding explains"
            )
        if other and noise != "float":
            more, most = lean((stored[index], row) for index, row in alike.items())
            if abs(more) > most:
                verdict.problems.append(
                    f"all {len(again)} inputs sampled again, together: the selected classes were counted {more:+d} "
                    f"times more often than now, at most {most:.0f} are explained by rounding"
                )

    def _certify(
        self,
        verdict: Verdict,
        manifest: Manifest,
        data: Dataset | LazyDataset,
        chosen: list[int],
    ) -> tuple[dict[str, Any], dict[int, dict[str, str]]]:
        """Of what these certificates are made here; their rows by index."""
        from smoothcert.certification.certify import certify_dataset

        model, config, device = self._settings(verdict, manifest)
        with tempfile.TemporaryDirectory(prefix="smoothcert-") as temporary:
            store = certify_dataset(
                model,
                data,
                temporary,
                config,
                selection=_Chosen(chosen=tuple(chosen)),
                device=device,
                quiet=self.quiet,
            )
            return _made(store.manifest()), {int(row["idx"]): row for row in store.rows()}

    def _to_the_same_look(
        self,
        verdict: Verdict,
        manifest: Manifest,
        data: Dataset | LazyDataset,
        stored: dict[int, dict[str, str]],
        again: dict[int, dict[str, str]],
    ) -> dict[int, dict[str, str]]:
        """The rows `again`, but counted up to the look that is stored: a flip can move the one at which they stop."""
        from smoothcert.certification.images import check_image
        from smoothcert.certification.smoothed import SmoothedClassifier

        model, config, device = self._settings(verdict, manifest)
        smoothed = SmoothedClassifier(model, config, classes=data.classes, device=device)
        looks, found = manifest.procedure.stopping.looks, dict(again)
        for index, row in again.items():
            wanted = len(stored[index]["path"].split())
            if len(row["path"].split()) == wanted:
                continue
            counts, path = np.zeros(data.classes, np.int64), []
            selected = top_class(stored[index]["counts0"])
            for first, last in pairwise((0, *looks[:wanted])):
                image = check_image(data.image(index))
                counts += smoothed.count(image, last, "estimation", index, first)
                path.append(str(counts[selected]))
            found[index] = {**row, "counts": written(counts), "path": " ".join(path)}
        return found

    def _settings(
        self, verdict: Verdict, manifest: Manifest
    ) -> tuple[nn.Module, CertifyConfig, torch.device]:
        """The network, and how each of its inputs was certified."""
        from smoothcert.devices.pick import pick_device
        from smoothcert.noise.streams import stream
        from smoothcert.runs.environment import device_kind

        model, _ = _run_of(verdict).load_model(trust_code=self.trust_code)
        device, of = pick_device(self.device), manifest.certified
        names = {entry.name for entry in dataclasses.fields(CertifyConfig)}
        settings = {name: value for name, value in manifest.identity.items() if name in names}
        settings |= {
            "seed": of.noise_seed,
            "alpha": manifest.procedure.alpha,
            "simultaneous": False,
        }  # as each input had it
        if of.device_type != device_kind(device):
            settings["precision"] = "auto"
        config = CertifyConfig(**settings)
        if (drawn := of.noise_stream) != stream(config.noise):
            raise StoreError(
                f"{verdict.name} cannot be sampled again: its noise is of the stream {drawn!r}, here it is "
                f"{stream(config.noise)!r}. Use the version of smoothcert that made it"
            )
        return model, config, device


@dataclass(frozen=True)
class _Chosen(Selection):
    """Any inputs of a data set: such a store is made for a comparison, and never kept."""

    chosen: tuple[int, ...] = ()

    def indices(self, size: int, of: str) -> list[int]:
        return list(self.chosen)


def _made(manifest: Manifest) -> dict[str, Any]:
    """The identity, and what the environment says of the machine."""
    machine = ("torch", "device", "cpu")
    version = {name: value for name, value in manifest.environment.items() if name in machine}
    return {**version, **manifest.identity}


def _run_of(verdict: Verdict) -> RunFolder:
    return RunFolder(verdict.store.resolve().parent.parent)


def _difference(stored: dict[str, str], again: dict[str, str]) -> str:
    """In words what differs of the label and the counts of one input; empty if nothing does.

    Radii follow from counts, and the last digits of them are the machine's.
    """
    names = [name for name in _COUNTED if stored[name] != again[name]]
    return "; ".join(f"{name} {stored[name]} stored, {again[name]} now" for name in names)


def _votes(stored: dict[str, str], again: dict[str, str], differing: bool = False) -> int:
    """How many votes an input had in both stages, or of how many it is certain that they differ."""
    found = 0
    for stage in ("counts0", "counts"):
        a, b = (class_counts(row[stage]) for row in (stored, again))
        each = [abs(a.get(c, 0) - b.get(c, 0)) for c in a.keys() | b.keys()]
        found += sum(each) // 2 if differing else sum(b.values())
    return found
